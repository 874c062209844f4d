"""Where the replicas of one step meet: who has come, who is missing, and what each of them gets.

The k-th exchange of one replica meets the k-th of every other. When all have come, the transfers of a collective begin, each
rank's from the moment when it came; a rank goes on when it has what it gets. What cannot succeed fails at once, for all that
wait and all that come later, and only for that exchange:

    what happens                          what the others get
    a replica comes with other shapes     InvalidArgumentError that names both
    the time-out is over                  DeadlineExceededError that names who is missing
    a member's task dies                  UnavailableError, one latency later
    a member gives up                     its error

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simdist.errors import UnavailableError
from simdist.program.exchange import Exchange
from simdist.program.values import Bundle
from simdist.runtime.simulated.engine import SimulatedRuntime
from simdist.runtime.simulated.exchanging import Exchanging
from simdist.runtime.simulated.members import NETWORK, Communication, Member
from simdist.runtime.simulated.task import Life, Task
from simdist.simulation.kernel import Gate

__all__ = ["Coming", "Rendezvous"]


@dataclass(frozen=True, slots=True)
class Coming:
    """A replica's part in an exchange.

    Attributes:
        gate: opens when it has what it gets.
        place: where the trace shows it.
        began_s: when it came.
        recorded: whether the trace learns of it without anybody waiting.
    """

    gate: Gate
    exchanging: Exchanging
    place: str
    began_s: float
    recorded: bool


class Rendezvous:
    """The exchanges of some replicas, in order.

    Args:
        runtime: where they are.
        members: by rank.
        communication: the strategy's.
        dropped: is told which replicas a step does not wait for any more.
    """

    def __init__(
        self,
        runtime: SimulatedRuntime,
        members: Sequence[Member],
        communication: Communication,
        dropped: Callable[[list[int]], None] = lambda ranks: None,
    ) -> None:
        self.runtime = runtime
        self.members = list(members)
        self.active = [member.rank for member in members]
        self.communication = communication
        self.dropped = dropped
        self.numbers = [0] * len(members)
        self.queue: list[Exchanging] = []  # those to which all have come; the first one's bytes travel
        self.pending: dict[int, Exchanging] = {}
        self.failed: dict[int, BaseException] = {}
        self.broken: BaseException | None = None
        runtime.lost.append(self._lost)

    def meet(self, rank: int, exchange: Exchange, given: Bundle) -> Bundle:
        """Take part in this replica's next exchange; block until it has what it gets.

        Raises:
            InvalidArgumentError, DeadlineExceededError, UnavailableError: see above.
        """
        return self.wait(self.come(rank, exchange, given))

    def come(self, rank: int, exchange: Exchange, given: Bundle, lane: str = "") -> Coming:
        """Be there for this replica's next exchange, and go on; `wait` for it later.

        Args:
            rank: of the replica.
            exchange: what it came for.
            given: its arrays.
            lane: where the trace shows it; default the replica's own device.

        Raises:
            As `meet`.
        """
        number = self.numbers[rank]
        self.numbers[rank] += 1
        error = self.broken or self.failed.get(number)
        if error is not None:
            raise error
        if number not in self.pending:
            self.pending[number] = Exchanging(self, number, exchange)
        exchanging, began_s, place = self.pending[number], self.runtime.now, lane or self.members[rank].place
        gate = exchanging.come(rank, exchange, given)
        if lane:
            gate.then(lambda gate: gate._ok and self._record(place, exchanging, began_s, waited=False))
        return Coming(gate, exchanging, place, began_s, bool(lane))

    def wait(self, coming: Coming) -> Bundle:
        """Block until the replica has what it gets."""
        began_s = self.runtime.now
        result: Bundle = self.runtime.clock.wait(coming.gate, coming.exchanging.awaited())
        if not coming.recorded:
            self._record(coming.place, coming.exchanging, coming.began_s)
        elif self.runtime.now > began_s:
            device = coming.place.removesuffix(NETWORK)
            self.runtime.trace.span(device, "wait", f"wait for {coming.exchanging.name}", began_s, self.runtime.now)
        return result

    def _record(self, place: str, exchanging: Exchanging, began: float, waited: bool = True) -> None:
        trace, now, name = self.runtime.trace, self.runtime.now, exchanging.name
        if exchanging.begun_s > began and waited:
            trace.span(place, "wait", f"wait for {name}", began, exchanging.begun_s)
        algorithm = exchanging.way.algorithm if exchanging.way else ""
        trace.span(
            place, "collective", name, max(began, exchanging.begun_s), now, bytes=exchanging.exchange.size_bytes, algorithm=algorithm
        )

    def admits(self, rank: int) -> bool:
        """Whether a replica still takes part, and exchanges can succeed."""
        return self.broken is None and rank in self.active

    def settle(self, exchanging: Exchanging, error: BaseException | None) -> None:
        """An exchange is over, for good or bad."""
        self.pending.pop(exchanging.number, None)
        if exchanging in self.queue:
            first = self.queue[0] is exchanging
            self.queue.remove(exchanging)
            if first and self.queue:
                self.queue[0].travel()
        if error is not None:
            self.failed[exchanging.number] = error

    def break_up(self, error: BaseException, spare_begun: bool = False) -> None:
        """No exchange of these members can succeed any more; with `spare_begun`, those may end to which all have come."""
        if self.broken is None:
            self.broken = error
        if not spare_begun:
            self.close()
        for exchanging in list(self.pending.values()):
            if not (spare_begun and exchanging.ranks):
                exchanging.fail(error)

    def close(self) -> None:
        """These members do not meet any more."""
        if self._lost in self.runtime.lost:
            self.runtime.lost.remove(self._lost)

    def _lost(self, task: Task) -> None:
        """A task has died: whoever talks to it learns of it one latency later."""
        if not any(member.task is task and member.rank in self.active for member in self.members):
            return
        others = [member.task for member in self.members if member.task is not task]
        error = UnavailableError(
            f"{task.name} died, and no all-reduce with it can end. Launch the mains with restart='always' to start again from the "
            "last checkpoint."
        )
        delay_s, life = (self.runtime.latency(task, others[0]) if others else 0.0), task.life
        self.runtime.clock.after(delay_s, lambda _: self._noticed(task, life, error))

    def _noticed(self, task: Task, life: Life, error: UnavailableError) -> None:
        if self.broken is None:
            self.runtime.detection.notice(task, life, "connection reset")
        self.break_up(error)

    def drop(self, ranks: list[int]) -> None:
        """A step goes on without these."""
        self.active = [rank for rank in self.active if rank not in ranks]
        self.dropped(ranks)
