"""A pending collective: the replicas arrive, the bytes travel, each replica gets its result; or it fails for all of them.

Taught in lesson 03a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simdist.errors import FailedPreconditionError
from simdist.program.collective import SPARSE_SUM, Collective, padded_gather
from simdist.program.sparse_sums import settled
from simdist.program.values import Bundle
from simdist.runtime.combining import disagreement
from simdist.runtime.replicas import CollectivePlan, Communication, Member
from simdist.runtime.simulated.arrival import Arrival
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.collective_timeouts import CollectiveTimeouts
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.transfers import RoutedSchedule, Transfers, idle
from simdist.runtime.simulated.uncontended import resumed, uncontended_bytes
from simdist.runtime.simulated.world import World
from simdist.simulation.network import Link
from simdist.trace.records import NO_CAUSE

__all__ = ["Participants", "PendingCollective"]

NEED_ALL = ("all_gather", "reduce_scatter", "reduce")
UNEVEN = ("all_gather", SPARSE_SUM)


class Participants(Protocol):
    """The replicas that take part in a collective (`simdist.runtime.simulated.collective_group.CollectiveGroup`).

    Attributes:
        members: all, by rank.
        active: the ranks of those that still take part.
        queue: collectives to which all have come; the first one's bytes travel.
    """

    world: World
    members: list[Member]
    active: list[int]
    communication: Communication
    plans: CollectivePlans
    queue: list[PendingCollective]

    def settle(self, pending_collective: PendingCollective, error: BaseException | None) -> None: ...
    def drop(self, ranks: list[int]) -> None: ...


class PendingCollective:
    """One collective, from its first arrival to its last result.

    Attributes:
        begun_s: when its bytes began to travel.
        transfers: on links that may be shared; or
        uncontended: its schedule and the bytes on each link, where all is known when they begin.
        cause: the number of the last record of the replica that came last.
        each: what each replica came for, where they may have come with different sizes.
        timeouts: how long it waits for replicas and bytes that are missing.
        recorded: the number of the last record of this collective, in a list that those behind it keep.
        behind: that of the collective for which its bytes had to wait; None where they had not.
    """

    def __init__(self, group: Participants, number: int, collective: Collective) -> None:
        self.group = group
        self.number = number
        self.collective = collective
        self.name = f"{collective.kind} {collective.label}".strip()
        self.given: dict[int, Bundle] = {}
        self.each: dict[int, Collective] = {}
        self.arrivals: dict[int, Arrival] = {}
        self.processes: list[tuple[Task, Incarnation]] = []  # of those who have come, where somebody may be lost in silence
        self.first: int | None = None
        self.begun_s = 0.0
        self.cause = NO_CAUSE
        self.recorded = [NO_CAUSE]
        self.behind: list[int] | None = None
        self.plan: CollectivePlan | None = None
        self.transfers: Transfers | None = None
        self.uncontended: tuple[RoutedSchedule, dict[Link, float]] | None = None
        self.ranks: list[int] = []
        self.results: Sequence[Bundle] = []
        self.left = 0
        self.over = False
        asked_s = None if collective.options is None else collective.options.timeout_seconds
        self.timeouts = CollectiveTimeouts(self, group.world.clock, asked_s or group.communication.timeout_s)
        if group.world.silence.is_expected:
            self.expect_silence()

    def arrive(self, rank: int, collective: Collective, given: Bundle, device: str, is_early: bool, cause: int) -> Arrival:
        """Note that a replica has arrived, after the record of this number.

        Raises:
            InvalidArgumentError: the first one came with other shapes; no replica gets a result.
        """
        arrival = self.arrivals[rank] = Arrival(self, collective, device, self.group.world.clock.now, is_early)
        if self.first is None:
            self.first = rank
        elif not collective.agrees_with(self.collective):
            self.fail(disagreement(self._name(self.first), self.collective, self._name(rank), collective, self.number))
            return arrival
        self.given[rank] = given
        if collective.kind in UNEVEN:
            self.each[rank] = collective
        self.cause = cause
        if self.group.world.silence.is_expected:
            self.processes.append(self._process_of(rank))
        active = self.group.active
        if len(self.given) >= max(1, len(active) - self.group.communication.backup_workers * (len(active) == len(self.group.members))):
            self._begin()
        return arrival

    def kinds(self, device: str) -> tuple[int, int]:
        """The kinds of spans of a wait for it and of the collective itself, on this lane."""
        algorithm = self.plan.algorithm if self.plan else ""
        return self.group.plans.kinds_of_spans(self.group.world.trace, device, self.name, algorithm, type(self.collective.size_bytes))

    def awaited(self) -> str:
        """What a replica waits for, as text."""
        missing = self.missing()
        late = f", to which {', '.join(missing[:8])} {'has' if len(missing) == 1 else 'have'} not come" if missing else ""
        return f"{self.collective}{late}"

    def missing(self) -> list[str]:
        """The replicas that have not arrived."""
        return [self._name(rank) for rank in self._missing_ranks()]

    def _missing_ranks(self) -> list[int]:
        return [rank for rank in self.group.active if rank not in self.arrivals]

    def down(self) -> list[str]:
        """Those of them whose tasks are down."""
        members, tasks = self.group.members, self.group.world.tasks
        return [self._name(rank) for rank in self._missing_ranks() if not tasks[members[rank].task].alive]

    def start_again_s(self) -> float:
        """When the last of their mains has started again, or is to, that may still come; 0 where none has failed.

        Where a member has died without a word, its next main makes a strategy of its own: to this collective it never comes.
        """
        world, members = self.group.world, self.group.members
        joined = next((group.processes for group in world.groups if group.collective_group is self.group), {})
        tasks = [task for rank in self._missing_ranks() if (task := members[rank].task) not in joined or joined[task].alive]
        return max([world.starts_again_s.get(task, world.started_again_s.get(task, 0.0)) for task in tasks], default=0.0)

    def not_again(self) -> list[str]:
        """Those of them whose mains have yet to start again, as the main of one that has come has done."""
        members, started_s = self.group.members, self.group.world.started_again_s
        last_s, last = max([(started_s.get(members[rank].task, 0.0), members[rank].task) for rank in self.arrivals], default=(0.0, ""))
        missing = {rank: members[rank].task for rank in self._missing_ranks()}
        late = [rank for rank, task in missing.items() if started_s.get(task, 0.0) < last_s]
        return [self._name(rank) for rank in late if not self._are_together(last, missing[rank])]

    def _are_together(self, *tasks: str) -> bool:
        """Whether the mains of these tasks have a strategy together: then none of them has to start again."""
        groups = [group for group in self.group.world.groups if not group.is_over]
        return any(all(task in group.processes for task in tasks) for group in groups)

    def _process_of(self, rank: int) -> tuple[Task, Incarnation]:
        task = self.group.world.tasks[self.group.members[rank].task]
        return task, task.process

    def _name(self, rank: int) -> str:
        return self.group.members[rank].device

    # -- the collective -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        group, collective = self.group, self.collective
        self.ranks = sorted(self.given)
        late = [rank for rank in group.active if rank not in self.given]
        if len(self.given) < len(group.members) and collective.kind in NEED_ALL:
            self.fail(
                FailedPreconditionError(
                    f"{collective} needs what all replicas have, and with backup_workers a step does not wait for all. Return the values "
                    "from the step, and gather them outside, without those of the replicas that it did not wait for."
                )
            )
            return
        if late:
            group.drop(late)
        if collective.kind == SPARSE_SUM:
            collective = self.collective = settled([self.each[rank] for rank in self.ranks])
            self.name = f"{collective.travels_as} {collective.label}".strip()
        elif collective.kind == "all_gather":
            collective = self.collective = padded_gather([self.each[rank] for rank in self.ranks])
        devices = tuple([group.members[rank].device for rank in self.ranks])
        communication = group.communication
        self.plan = communication.plan(collective, devices)
        # Where gradients of some are dropped, or their part of a mean, those of the others stand for them.
        stand_in = communication.backup_workers and (collective.averaged or collective.label == "gradients")
        scale = len(group.members) / len(devices) if stand_in else 1
        first, given = group.members[self.ranks[0]], [self.given[rank] for rank in self.ranks]
        where = (first.device, group.world.tasks[first.task].steps, group.world.clock.now)
        self.results = group.plans.combined(group.world, collective, self.plan, given, scale, where)
        self.left = len(devices)
        group.queue.append(self)
        if len(group.queue) == 1:
            self.travel()

    def travel(self) -> None:
        """Send the bytes, when the collectives before have ended; on uncontended links in the seconds that are known."""
        plan = self.plan
        assert plan is not None
        world = self.group.world
        self.begun_s = world.clock.now
        if world.silence.is_expected:
            self.expect_silence()
        plans = self.group.plans
        routed = plans.routed(world, plan, plan.equivalent_devices or plan.devices, self._size_bytes())
        carried = plans.carried(world, plan, routed)
        alone = world.is_foreseeable and world.busy() <= len(self.group.members) and idle(list(carried))
        if alone and not (plan.equivalent_devices and len({link.bandwidth_bytes_per_s for link in carried}) > 1):
            self.uncontended = routed, carried
            world.foreseen[self] = None
            for index, end_s in enumerate(plans.uncontended_seconds(routed, carried)):
                world.clock.after(end_s, self._done_in_time, index)
            return
        self.transfers = Transfers(world.transport, self._over_real_links(), self._done, self.expect_silence)
        lost = next((task for task, process in self.processes if process.lost), None)
        if lost is not None:
            self.transfers.host_lost(lost)
            return
        for index in range(len(plan.devices)):
            self.transfers.begin(index)

    def _size_bytes(self) -> float:
        """The data of one rank, as the schedule's chunks count it."""
        return self.collective.size_bytes * (len(self.ranks) if self.collective.travels_as == "all_gather" else 1)

    def _over_real_links(self) -> RoutedSchedule:
        assert self.plan is not None
        return self.group.plans.routed(self.group.world, self.plan, self.plan.devices, self._size_bytes())

    def _done_in_time(self, index: int) -> None:
        # A rank that was done when its bytes went on as flows has no flow that says so.
        if self.uncontended is not None or (self.transfers is not None and self.transfers.is_done(index)):
            self._done(index)

    def _done_ranks(self) -> list[int]:
        """The numbers of those that have their results."""
        return [index for index, rank in enumerate(self.ranks) if self.arrivals[rank].over]

    def under_way(self) -> list[tuple[str, str, float, float]]:
        """The transfers that are on their way now: between which devices, how many bytes, and when sent. Looking changes nothing."""
        if self.plan is None:
            return []
        if self.uncontended is not None:
            routed, carried = self.uncontended
            timetable = self.group.plans.timetable(routed, carried)
            numbers = timetable.under_way(self.group.world.clock.now - self.begun_s)
            sent_s = {routed.legs[number]: self.begun_s + float(timetable.sent_s[number]) for number in numbers}
        else:
            sent_s = {} if self.transfers is None else self.transfers.under_way
        devices = self.plan.devices
        return [(devices[leg.content.source], devices[leg.content.target], leg.size_bytes, at_s) for leg, at_s in sent_s.items()]

    def carried(self) -> dict[Link, float]:
        """The bytes that links have carried for it, and that no flow has counted. Looking changes nothing."""
        if self.uncontended is None:
            return {}
        routed, carried = self.uncontended
        elapsed_s = self.group.world.clock.now - self.begun_s
        return dict(zip(carried, self.group.plans.timetable(routed, carried).carried(elapsed_s), strict=True))

    def unfold(self) -> None:
        """Something may disturb it from now on: its bytes go on as flows."""
        if self.uncontended is None:
            return
        world, (routed, _) = self.group.world, self.uncontended
        self._count_uncontended(is_whole=False)
        elapsed_s = world.clock.now - self.begun_s
        done_ranks, real = self._done_ranks(), self._over_real_links()
        self.transfers = resumed(routed, elapsed_s, done_ranks, world.transport, real, self._done, self.expect_silence)

    def _count_uncontended(self, is_whole: bool) -> None:
        """Count the bytes that have travelled in the seconds that were known, which no flow has counted."""
        if self.uncontended is None:
            return
        assert self.plan is not None
        routed, carried = self.uncontended
        self.uncontended = None
        self.group.world.foreseen.pop(self, None)
        sent, over_links = routed.bytes_sent, list(carried.values())
        if not is_whole:
            sent, over_links = uncontended_bytes(routed, self.group.world.clock.now - self.begun_s, self._done_ranks())
        for device, num_bytes in zip(self.plan.devices, sent, strict=True):
            if num_bytes:
                self.group.world.trace.total(device, "bytes_sent", num_bytes)
        for link, num_bytes in zip(carried, over_links, strict=True):
            link.bytes_carried += num_bytes

    def _done(self, index: int) -> None:
        if self.over or index >= len(self.ranks) or self.arrivals[self.ranks[index]].over:
            return
        self.left -= 1
        if self.left == 0:
            self._end(None)
        self.arrivals[self.ranks[index]].end(self.results[index], None)
        if self.left == 0:
            # The arrivals know it until the collector comes by: it shall not keep numbers alive.
            self.given, self.results, self.arrivals = {}, [], {}

    # -- failures -------------------------------------------------------------------------------------------------

    def expect_silence(self) -> None:
        """A replica or a message may be missing without an error: do not wait for it for ever."""
        if self.over:
            return
        if not self.timeouts.gives_up_s:
            self.processes = [self._process_of(rank) for rank in self.given]
        self.timeouts.expect_silence(self)

    def _end(self, error: BaseException | None) -> None:
        self.over = True
        self.timeouts.end()
        self._count_uncontended(is_whole=error is None)
        self.group.settle(self, error)

    def fail(self, error: BaseException) -> None:
        """End with an error, for all replicas."""
        if self.over:
            return
        if self.transfers is not None:
            self.transfers.stop()
        self._end(error)
        for arrival in list(self.arrivals.values()):
            arrival.end(None, error)
