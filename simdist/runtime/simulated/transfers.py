"""The transfers of a collective, as flows over the links of the fabric.

A rank enters a step when it has ended all its earlier ones. A transfer begins when both of its ranks have entered its
step, takes the latency of its route, and then the time that its bytes need on links that they may share with others. Only
the ranks that need data of the slowest one wait for it.

Not simulated: the time of the additions, and the memory of the buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from simdist.collectives.base import Schedule
from simdist.hardware import laptop_cpu
from simdist.runtime.simulated.legs import Leg, Legs
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Transport
from simdist.simulation.fabric import Route
from simdist.simulation.network import Flow, Link, QuietFlows

__all__ = ["BYTES_SENT", "NOBODY", "RoutedSchedule", "Transfers", "idle"]


NOBODY = Task("nobody", laptop_cpu)
"""The end of a transfer that belongs to no cluster."""

BYTES_SENT = "bytes_sent"


@dataclass(frozen=True, slots=True, eq=False)
class Hop:
    """One transfer of a step of the schedule, from rank to rank."""

    step: int
    source: int
    target: int


class RoutedSchedule:
    """A schedule with the routes of its ranks: for each rank and step, the transfers in which it takes part.

    Args:
        schedule: of the collective.
        route: (source rank, target rank) -> its route.
        size_bytes: of each rank's data.
        tasks: of each rank; without them it can only be timed alone (`uncontended.py`).
        devices: of each rank; the trace counts the bytes that they send. None: they are not counted.
    """

    def __init__(
        self,
        schedule: Schedule,
        route: Callable[[int, int], Route],
        size_bytes: float,
        tasks: Sequence[Task] = (),
        devices: Sequence[str] | None = None,
    ) -> None:
        self.num_ranks = schedule.num_ranks
        self.tasks = tasks or [NOBODY] * schedule.num_ranks
        self.devices = devices
        self.bytes_sent = [0.0] * self.num_ranks
        self.legs = [
            self._leg(Hop(t.step, t.source, t.target), route(t.source, t.target), len(t.chunks) * size_bytes / schedule.num_chunks)
            for t in schedule.transfers
        ]
        self.alone = {leg: Legs([leg]) for leg in self.legs}
        steps: list[dict[int, list[Leg]]] = [{} for _ in range(self.num_ranks)]
        for leg in self.legs:
            hop: Hop = leg.content
            self.bytes_sent[hop.source] += leg.size_bytes
            for rank in (hop.source, hop.target):
                steps[rank].setdefault(hop.step, []).append(leg)
        self.steps = [[legs for _, legs in sorted(own.items())] for own in steps]

    def _leg(self, hop: Hop, route: Route, size_bytes: float) -> Leg:
        source, target = self.tasks[hop.source], self.tasks[hop.target]
        counted = None if self.devices is None else (self.devices[hop.source], BYTES_SENT)
        return Leg(source, target, size_bytes, route.links, route.latency_s, counted, hop, kind="collective")

    @cached_property
    def links(self) -> list[Link]:
        """All links in use, each once."""
        return list(dict.fromkeys(link for leg in self.legs for link in leg.links))

    @cached_property
    def carried(self) -> dict[Link, float]:
        """The bytes that each link carries."""
        carried = dict.fromkeys(self.links, 0.0)
        for leg in self.legs:
            for link in leg.links:
                carried[link] += leg.size_bytes
        return carried

    def on_links(self, copies: dict[Link, Link]) -> RoutedSchedule:
        """The same schedule on other links, for no task; what each rank sends is counted by its number."""
        other = copy(self)
        other.__dict__.pop("links", None)
        other.tasks = [NOBODY] * self.num_ranks
        moved = {
            leg: replace(
                leg,
                source=NOBODY,
                target=NOBODY,
                links=tuple([copies[link] for link in leg.links]),
                counted=(str(leg.content.source), BYTES_SENT),
            )
            for leg in self.legs
        }
        other.legs = list(moved.values())
        other.alone = {leg: Legs([leg]) for leg in other.legs}
        other.steps = [[[moved[leg] for leg in legs] for legs in own] for own in self.steps]
        return other


class Transfers:
    """One collective in flight.

    Args:
        transport: carries it.
        routed: who sends what where.
        done: is called with each rank when it has done with its last step.
        lost: is called when bytes are lost, because no other error says so.

    Attributes:
        has_lost: whether bytes were lost, so that it cannot end.
        under_way: when those transfers were sent that have not come.
    """

    def __init__(
        self, transport: Transport, routed: RoutedSchedule, done: Callable[[int], None], lost: Callable[[], None] = lambda: None
    ) -> None:
        self.transport = transport
        self.routed = routed
        self.done = done
        self.lost = lost
        self.has_lost = False
        self.to_do = routed.num_ranks
        self.position = [-1] * routed.num_ranks  # in the rank's list of steps; -1 before it begins
        self.left = [0] * routed.num_ranks  # transfers of its present step that have not ended
        self.entered: set[Leg] = set()  # those that one of their two ranks is ready for
        self.under_way: dict[Leg, float] = {}
        self.flows: list[Flow | QuietFlows] = []
        self.open = True
        self.twice: set[Leg] = set()  # of which more than one copy may come
        self.came: set[Leg] = set()  # those of them that have come
        transport.collectives[self] = None

    def begin(self, rank: int) -> None:
        """A rank has arrived and begins its first step; a paused one does so when it goes on and all have arrived."""
        held = self.routed.tasks[rank].held
        if held is not None:
            held.append((self.begin, rank))
        elif self.open:
            self._enter_next(rank)

    def stop(self) -> None:
        """Cancel the transfers: what is on its way is dropped."""
        self.open = False
        self.transport.collectives.pop(self, None)
        for flow in self.flows:
            self.transport.links.stop(flow)
        self.flows.clear()
        self.under_way.clear()

    def leaving(self, legs: Legs) -> Legs:
        return legs

    def is_done(self, rank: int) -> bool:
        """Whether a rank has done with its last step."""
        return self.position[rank] == len(self.routed.steps[rank])

    @property
    def paused(self) -> list[str]:
        """The tasks that are paused during the collective."""
        standing = [task for rank, task in enumerate(self.routed.tasks) if task.held is not None and not self.is_done(rank)]
        return list(dict.fromkeys(task.name for task in standing))

    def silenced(self, leg: Leg) -> None:
        """A transfer is lost: its two ranks wait until the time-out of the collective."""
        self.under_way.pop(leg, None)
        self.has_lost = True
        self.lost()

    def repeated(self, leg: Leg) -> None:
        self.twice.add(leg)

    def host_lost(self, task: Task) -> None:
        """A machine is gone: if it is that of a rank, nothing of this arrives any more, and nobody says so."""
        if task in self.routed.tasks:
            self.stop()
            self.has_lost = True
            self.lost()

    def _enter_next(self, rank: int) -> None:
        self.position[rank] += 1
        steps = self.routed.steps[rank]
        if self.position[rank] == len(steps):
            self.to_do -= 1
            if not self.to_do:
                self.transport.collectives.pop(self, None)
            self.done(rank)
            return
        legs = steps[self.position[rank]]
        self.left[rank] = len(legs)
        for leg in legs:
            if leg in self.entered:
                self.entered.remove(leg)
                self.send(leg)
            else:
                self.entered.add(leg)

    def send(self, leg: Leg) -> None:
        """Both ranks of a transfer are ready for it."""
        self.under_way[leg] = self.transport.clock.now
        self.transport.send(self.routed.alone[leg], self, self.arrived)

    def arrived(self, leg: Leg) -> None:
        """The last byte of a transfer has come."""
        self.under_way.pop(leg, None)
        if leg in self.twice:
            if leg in self.came:
                return
            self.came.add(leg)
        for rank in (leg.content.source, leg.content.target):
            self._one_less(rank)

    def _one_less(self, rank: int) -> None:
        if not self.open:
            return
        held = self.routed.tasks[rank].held
        if held is not None:
            held.append((self._one_less, rank))
            return
        self.left[rank] -= 1
        if not self.left[rank]:
            self._enter_next(rank)


def idle(links: Sequence[Link]) -> bool:
    """Whether nothing travels over these links now."""
    for link in links:  # noqa: SIM110 - asked at each collective, where a generator would cost several times as much
        if link.quiet is not None or link.flows or link.books:
            return False
    return True
