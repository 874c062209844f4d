"""A collective on its way: the transfers of a schedule, as flows over the links of the fabric.

A rank enters a step when it has done with all its earlier ones: everything that it sends there has arrived, and everything
that it is to receive has come. A transfer takes the latency of its route, and then the time that its bytes need on links that
they may share with others. Nothing waits for the slowest but those who need something of it.

The same collective of the same ranks, begun by all in one moment on links that nobody else uses, takes equally long each
time: it is then worked out once, on a clock of its own (`rehearse`), and not played again.

Not simulated: the time to add what has come, and the memory that it passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from simdist.collectives.base import Schedule
from simdist.simulation.fabric import Route
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Flow, Link, SharedLinks

__all__ = ["Transfers", "Wiring", "idle", "rehearse"]


class Wiring:
    """A schedule on the places of its ranks: for each rank and step, what it sends where, and how much it waits for.

    Args:
        schedule: of the collective.
        route: (source rank, target rank) -> its route.
        size_bytes: of each rank's data.
    """

    def __init__(self, schedule: Schedule, route: Callable[[int, int], Route], size_bytes: float) -> None:
        self.schedule = schedule
        self.sends: list[dict[int, list[tuple[int, Route, float]]]] = [{} for _ in range(schedule.num_ranks)]
        self.waits: list[dict[int, int]] = [{} for _ in range(schedule.num_ranks)]
        self.bytes_sent = [0.0] * schedule.num_ranks
        for transfer in schedule.transfers:
            num_bytes = len(transfer.chunks) * size_bytes / schedule.num_chunks
            source, target, step = transfer.source, transfer.target, transfer.step
            self.sends[source].setdefault(step, []).append((target, route(source, target), num_bytes))
            for rank in (source, target):
                self.waits[rank][step] = self.waits[rank].get(step, 0) + 1
            self.bytes_sent[source] += num_bytes
        self.steps = [sorted(waits) for waits in self.waits]

    @cached_property
    def links(self) -> list[Link]:
        """All links that are used, each once."""
        routes = (route for sends in self.sends for parts in sends.values() for _, route, _ in parts)
        return list(dict.fromkeys(link for route in routes for link in route.links))


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
        self.place = [-1] * wiring.schedule.num_ranks  # in the rank's list of steps; -1 before it begins
        self.left = [dict(waits) for waits in wiring.waits]
        self.flows: dict[Flow, None] = {}
        self.stopped = False

    def begin(self, rank: int) -> None:
        """A rank is there, and enters its first step."""
        self._advance(rank)

    def stop(self) -> None:
        """Nobody needs this any more: what is on its way is dropped."""
        self.stopped = True
        for flow in list(self.flows):
            self.links.stop(flow)
        self.flows.clear()

    def _advance(self, rank: int) -> None:
        """Go on to the next step, and to further ones in which everything has happened already."""
        steps, left = self.wiring.steps[rank], self.left[rank]
        while True:
            self.place[rank] += 1
            if self.place[rank] == len(steps):
                self.done(rank)
                return
            step = steps[self.place[rank]]
            for part in self.wiring.sends[rank].get(step, ()):
                self.clock.after(part[1].latency_s, self._start, (rank, step, part))
            if left[step]:
                return

    def _start(self, sending: tuple[int, int, tuple[int, Route, float]]) -> None:
        if self.stopped:
            return
        _, _, (_, route, num_bytes) = sending
        if not route.links or num_bytes <= 0:
            self._arrived((sending, None))
            return
        cell: list[Any] = []
        flow = self.links.start(route.links, num_bytes, self._arrived, (sending, cell))
        cell.append(flow)
        self.flows[flow] = None

    def _arrived(self, what: tuple[tuple[int, int, tuple[int, Route, float]], Any]) -> None:
        (source, step, (target, _, _)), cell = what
        if cell:
            self.flows.pop(cell[0], None)
        if self.stopped:
            return
        for rank in (source, target):
            left = self.left[rank]
            left[step] -= 1
            place = self.place[rank]
            if not left[step] and 0 <= place < len(self.wiring.steps[rank]) and self.wiring.steps[rank][place] == step:
                self._advance(rank)


def rehearse(wiring: Wiring) -> tuple[list[float], dict[Link, float]]:
    """How long each rank takes where all begin at once and nobody is in the way, and what each link carries."""
    clock = Clock()
    links = SharedLinks(clock)
    copies = {link: Link(link.name, link.bandwidth_bytes_per_s) for link in wiring.links}
    carried = dict.fromkeys(copies, 0.0)

    def alone(route: Route) -> Route:
        return Route(tuple(copies[link] for link in route.links), route.latency_s)

    stage = object.__new__(Wiring)
    stage.schedule, stage.waits, stage.steps, stage.bytes_sent = wiring.schedule, wiring.waits, wiring.steps, wiring.bytes_sent
    stage.sends = [
        {step: [(target, alone(route), n) for target, route, n in parts] for step, parts in sends.items()} for sends in wiring.sends
    ]
    for sends in wiring.sends:
        for parts in sends.values():
            for _, route, num_bytes in parts:
                for link in route.links:
                    carried[link] += num_bytes
    seconds = [0.0] * wiring.schedule.num_ranks
    gate, left = clock.gate(), list(range(wiring.schedule.num_ranks))

    def done(rank: int) -> None:
        seconds[rank] = clock.now
        left.pop()
        if not left:
            gate.open()

    transfers = Transfers(clock, links, stage, done)
    for rank in range(wiring.schedule.num_ranks):
        transfers.begin(rank)
    clock.wait(gate, "a collective")
    return seconds, carried


def idle(links: Sequence[Link]) -> bool:
    """Whether nothing travels over these links now."""
    return not any(link.flows or link.books for link in links)
