"""A collective on its way: the transfers of a schedule, as flows over the links of the fabric.

A rank enters a step when it has done with all its earlier ones. A transfer begins when both of its ranks have entered its
step, takes the latency of its route, and then the time that its bytes need on links that they may share with others. Nothing
waits for the slowest but those who need something of it.

The same collective of the same ranks, begun by all in one moment on links that nobody else uses, takes equally long each
time: it is then worked out once, on a clock of its own (`rehearse`), and not played again.

Not simulated: the time to add what has come, and the memory that it passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from simdist.collectives.base import Schedule
from simdist.simulation.fabric import Route
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Flow, Link, SharedLinks

__all__ = ["Transfers", "Wiring", "idle", "rehearse"]


@dataclass(frozen=True, slots=True, eq=False)
class Hop:
    """One transfer on its links."""

    step: int
    source: int
    target: int
    route: Route
    num_bytes: float


class Wiring:
    """A schedule on the places of its ranks: for each rank and step, the transfers that it takes part in.

    Args:
        schedule: of the collective.
        route: (source rank, target rank) -> its route.
        size_bytes: of each rank's data.
    """

    def __init__(self, schedule: Schedule, route: Callable[[int, int], Route], size_bytes: float) -> None:
        self.num_ranks = schedule.num_ranks
        self.hops = [
            Hop(t.step, t.source, t.target, route(t.source, t.target), len(t.chunks) * size_bytes / schedule.num_chunks)
            for t in schedule.transfers
        ]
        self.bytes_sent = [0.0] * self.num_ranks
        steps: list[dict[int, list[Hop]]] = [{} for _ in range(self.num_ranks)]
        for hop in self.hops:
            self.bytes_sent[hop.source] += hop.num_bytes
            for rank in (hop.source, hop.target):
                steps[rank].setdefault(hop.step, []).append(hop)
        self.steps = [[hops for _, hops in sorted(own.items())] for own in steps]

    @cached_property
    def links(self) -> list[Link]:
        """All links that are used, each once."""
        return list(dict.fromkeys(link for hop in self.hops for link in hop.route.links))

    @cached_property
    def carried(self) -> dict[Link, float]:
        """The bytes that each link carries."""
        carried = dict.fromkeys(self.links, 0.0)
        for hop in self.hops:
            for link in hop.route.links:
                carried[link] += hop.num_bytes
        return carried

    def on_links(self, copies: dict[Link, Link]) -> Wiring:
        """The same on other links."""
        other = copy(self)
        other.__dict__.pop("links", None)
        moved = {hop: replace(hop, route=Route(tuple(copies[link] for link in hop.route.links), hop.route.latency_s)) for hop in self.hops}
        other.hops = list(moved.values())
        other.steps = [[[moved[hop] for hop in hops] for hops in own] for own in self.steps]
        return other


class Transfers:
    """One collective in flight.

    Args:
        clock, links: where it happens.
        wiring: who sends what where.
        done: is called with each rank when it has done with its last step.
    """

    def __init__(self, clock: Clock, links: SharedLinks, wiring: Wiring, done: Callable[[int], None]) -> None:
        self.clock = clock
        self.links = links
        self.wiring = wiring
        self.done = done
        self.place = [-1] * wiring.num_ranks  # in the rank's list of steps; -1 before it begins
        self.left = [0] * wiring.num_ranks  # transfers of its present step that have not ended
        self.entered: set[Hop] = set()  # those that one of their two ranks is ready for
        self.flows: dict[Hop, Flow] = {}
        self.stopped = False

    def begin(self, rank: int) -> None:
        """A rank is there, and enters its first step."""
        self._enter_next(rank)

    def stop(self) -> None:
        """Nobody needs this any more: what is on its way is dropped."""
        self.stopped = True
        for flow in self.flows.values():
            self.links.stop(flow)
        self.flows.clear()

    def _enter_next(self, rank: int) -> None:
        self.place[rank] += 1
        steps = self.wiring.steps[rank]
        if self.place[rank] == len(steps):
            self.done(rank)
            return
        hops = steps[self.place[rank]]
        self.left[rank] = len(hops)
        for hop in hops:
            if hop in self.entered:
                self.entered.remove(hop)
                self.clock.after(hop.route.latency_s, self._start, hop)
            else:
                self.entered.add(hop)

    def _start(self, hop: Hop) -> None:
        if self.stopped:
            return
        if hop.route.links and hop.num_bytes > 0:
            self.flows[hop] = self.links.start(hop.route.links, hop.num_bytes, self._arrived, hop)
        else:
            self._arrived(hop)

    def _arrived(self, hop: Hop) -> None:
        self.flows.pop(hop, None)
        if self.stopped:
            return
        for rank in (hop.source, hop.target):
            self.left[rank] -= 1
            if not self.left[rank]:
                self._enter_next(rank)


def rehearse(wiring: Wiring) -> list[float]:
    """How long each rank takes where all begin at once and nobody is in the way, in seconds."""
    clock = Clock()
    links = SharedLinks(clock)
    alone = wiring.on_links({link: Link(link.name, link.bandwidth_bytes_per_s) for link in wiring.links})
    seconds = [0.0] * wiring.num_ranks
    gate, left = clock.gate(), list(range(wiring.num_ranks))

    def done(rank: int) -> None:
        seconds[rank] = clock.now
        left.pop()
        if not left:
            gate.open()

    transfers = Transfers(clock, links, alone, done)
    for rank in range(wiring.num_ranks):
        transfers.begin(rank)
    clock.wait(gate, "a collective")
    return seconds


def idle(links: Sequence[Link]) -> bool:
    """Whether nothing travels over these links now."""
    return not any(link.flows or link.books for link in links)
