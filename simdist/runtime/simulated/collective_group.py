"""Collective groups: which replicas of a step have arrived, which are missing, and what each of them gets.

The k-th collective of one replica is the k-th of every other. When all have arrived, the transfers of a collective begin, each
rank's at its arrival; a rank goes on when it has its result. A collective that cannot succeed fails at once, for all replicas that
wait and all that arrive later. Other collectives are not affected:

    what happens                          what the others get
    a replica arrives with other shapes   InvalidArgumentError that names both
    the time-out is over                  DeadlineExceededError that names who is missing
    a member's task dies                  UnavailableError, one latency later
    a member gives up                     its error

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.errors import UnavailableError
from simdist.program.collective import Collective
from simdist.program.values import Bundle
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.simulated.arrival import Arrival
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.pending_collective import PendingCollective
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.world import World
from simdist.trace.records import NETWORK

__all__ = ["CollectiveGroup"]


class CollectiveGroup:
    """The collectives of some replicas, in order.

    Args:
        world: where they are.
        members: by rank.
        communication: the strategy's.
        plans: of the strategy's collectives.
        dropped: is called with the replicas for which a step does not wait any more.
    """

    def __init__(
        self,
        world: World,
        members: Sequence[Member],
        communication: Communication,
        plans: CollectivePlans,
        dropped: Callable[[list[int]], None] = lambda ranks: None,
    ) -> None:
        self.world = world
        self.members = list(members)
        self.active = [member.rank for member in members]
        self.communication = communication
        self.plans = plans
        self.dropped = dropped
        self.numbers = [0] * len(members)
        self.queue: list[PendingCollective] = []  # those to which all have come; the first one's bytes travel
        self.pending: dict[int, PendingCollective] = {}
        self.failed: dict[int, BaseException] = {}
        self.broken: BaseException | None = None
        self.known_to = set[str]()  # the tasks whose code has got an error of it since
        world.listeners.append(self)

    def arrive(self, rank: int, collective: Collective, given: Bundle, cause: int, is_early: bool = False) -> Arrival:
        """This replica arrives at its next collective.

        Args:
            rank: of the replica.
            collective: what it came for.
            given: its arrays.
            cause: the number of the last record of the replica.
            is_early: whether its device still computes; the trace shows it on a lane of its own then.

        Raises:
            InvalidArgumentError, DeadlineExceededError, UnavailableError: the collective has failed already.
        """
        number = self.numbers[rank]
        self.numbers[rank] += 1
        error = self.broken or self.failed.get(number)
        if error is not None:
            raise error
        pending_collective = self.pending.get(number)
        if pending_collective is None:
            pending_collective = self.pending[number] = PendingCollective(self, number, collective)
        device = self.members[rank].device
        return pending_collective.arrive(rank, collective, given, device + NETWORK if is_early else device, is_early, cause)

    def record(self, arrival: Arrival, waited: bool = True) -> int:
        """Write into the trace that a replica has what it came for; returns the number of the record."""
        trace, now, pending_collective = self.world.trace, self.world.clock.now, arrival.pending_collective
        began, begun, cause = arrival.began_s, pending_collective.begun_s, pending_collective.cause
        wait, kind = pending_collective.kinds(arrival.device)
        if pending_collective.behind is not None:
            cause = max(cause, pending_collective.behind[0])
        if begun > began and waited:
            trace.add(wait, began, begun, 0.0, 0.0, cause)
        number = trace.add(kind, max(began, begun), now, arrival.size_bytes, 0.0, cause)
        pending_collective.recorded[0] = number
        return number

    def admits(self, rank: int) -> bool:
        """Whether a replica still takes part, and collectives can succeed."""
        return self.broken is None and rank in self.active

    def settle(self, pending_collective: PendingCollective, error: BaseException | None) -> None:
        """A collective is over, for good or bad."""
        self.pending.pop(pending_collective.number, None)
        if pending_collective in self.queue:
            first = self.queue[0] is pending_collective
            self.queue.remove(pending_collective)
            if first and self.queue:
                self.queue[0].behind = pending_collective.recorded
                self.queue[0].travel()
        if error is not None:
            self.failed[pending_collective.number] = error

    def break_up(self, error: BaseException, keep_begun: bool = False) -> None:
        """No collective of these members can succeed any more; with `keep_begun`, those may end at which all have arrived."""
        if self.broken is None:
            self.broken = error
        if not keep_begun:
            self.close()
        for pending_collective in list(self.pending.values()):
            if not (keep_begun and pending_collective.ranks):
                pending_collective.fail(error)

    def close(self) -> None:
        """Close the group: its members start no collective any more."""
        if self in self.world.listeners:
            self.world.listeners.remove(self)

    def lost(self, task: Task) -> None:
        """A task has died: its peers get an error one latency later."""
        if not any(member.task == task.name and member.rank in self.active for member in self.members):
            return
        others = [member.task for member in self.members if member.task != task.name]
        error = UnavailableError(
            f"{task.name} died, and no all-reduce with it can end. Launch the mains with restart='always' to start again from the "
            "last checkpoint."
        )
        delay_s, process = (self.world.routes.latency_s(task, self.world.tasks[others[0]]) if others else 0.0), task.process
        self.world.clock.after(delay_s, lambda _: self._noticed(task, process, error))

    def _noticed(self, task: Task, process: Incarnation, error: UnavailableError) -> None:
        if self.broken is None:
            self.world.detection.notice(task.name, process, "connection reset")
        self.break_up(error)

    def expect_silence(self) -> None:
        """From now on a replica may fail silently: collectives get a time-out."""
        for pending_collective in list(self.pending.values()):
            pending_collective.expect_silence()

    def drop(self, ranks: list[int]) -> None:
        """Continue a step without these replicas."""
        self.active = [rank for rank in self.active if rank not in ranks]
        self.dropped(ranks)
