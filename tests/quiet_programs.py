"""Programs of transfers on links, to be run with flows in closed form and without: what happens must be the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simdist.simulation.kernel import Clock
from simdist.simulation.network import Course, Flow, Link, QuietFlows, SharedLinks

__all__ = ["Program", "Run", "Transfer"]

LONG_S = 1e13


@dataclass(frozen=True)
class Transfer:
    """Loads that start together.

    Attributes:
        loads: (numbers of links, size in bytes) of each.
        is_whole: whether only the last end matters, so that one event may stand for all.
        then: what happens within the call that tells of an end, by the number of the load.
    """

    loads: tuple[tuple[tuple[int, ...], float], ...]
    is_whole: bool = False
    then: dict[int, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Load:
    transfer: int
    number: int
    links: tuple[Link, ...]
    size_bytes: float


@dataclass(frozen=True)
class Program:
    """What happens when: (moment, what, its arguments), with transfers by their numbers."""

    capacities: tuple[float, ...]
    transfers: tuple[Transfer, ...]
    happenings: tuple[tuple[Any, ...], ...]


class Run:
    """A program that has run.

    Attributes:
        ends: when each load ended, in the order of the calls; of a whole transfer only its last end.
        seen: what looks at the links have found.
        num_quiet: transfers that were in closed form.
    """

    def __init__(self, program: Program, closed_form: bool, until_s: float = LONG_S) -> None:
        self.program, self.closed_form = program, closed_form
        self.clock = Clock()
        self.shared = SharedLinks(self.clock)
        self.links = [Link(str(number), capacity) for number, capacity in enumerate(program.capacities)]
        self.started: dict[int, list[Flow | QuietFlows]] = {}
        self.left: dict[int, int] = {}
        self.ends: list[tuple[float, int, int]] = []
        self.seen: list[list[float]] = []
        self.num_quiet = 0
        for moment, *what in program.happenings:
            self.clock.after(moment, self.do, what)
        self.clock.sleep(until_s)

    def do(self, what: Any) -> None:
        name, *arguments = what
        getattr(self, name)(*arguments)

    def start(self, transfer: int) -> None:
        if transfer in self.started:
            return
        wanted = self.program.transfers[transfer]
        routes = [(tuple(self.links[link] for link in links), size_bytes) for links, size_bytes in wanted.loads]
        loads = [Load(transfer, number, links, size_bytes) for number, (links, size_bytes) in enumerate(routes)]
        self.left[transfer] = len(loads)
        self.started[transfer] = started = []
        done = self.one_of_a_whole if wanted.is_whole else self.one
        if self.closed_form:
            all_done = self.whole if wanted.is_whole else None
            quiet = self.shared.start_course(Course(loads, self.shared.epoch), done, all_done)
            if quiet is not None:
                self.num_quiet += 1
                started.append(quiet)
                return
        if len(loads) == 1:
            started.append(self.shared.start(loads[0].links, loads[0].size_bytes, done, loads[0]))
        else:
            started += self.shared.start_loads(loads, done)

    def one(self, load: Load) -> None:
        self.left[load.transfer] -= 1
        assert self.left[load.transfer] >= 0
        self.ends.append((self.clock.now, load.transfer, load.number))
        then = self.program.transfers[load.transfer].then.get(load.number)
        if then is not None:
            self.do(then)

    def one_of_a_whole(self, load: Load) -> None:
        self.left[load.transfer] -= 1
        assert self.left[load.transfer] >= 0
        if not self.left[load.transfer]:
            self.ends.append((self.clock.now, load.transfer, -1))

    def whole(self, loads: Any) -> None:
        self.left[loads[0].transfer] -= len(loads) - 1
        self.one_of_a_whole(loads[0])

    def stop(self, transfer: int) -> None:
        for flow in self.started.get(transfer, []):
            self.shared.stop(flow)

    def bandwidth(self, link: int, bandwidth: float) -> None:
        self.shared.set_bandwidth(self.links[link], bandwidth)

    def unfold(self, transfer: int) -> None:
        """Look at the flows of a transfer: what they have still to carry."""
        if transfer not in self.started:
            return
        self.started[transfer][:] = flows = self.shared.flows_of(self.started[transfer])
        by_load = {flow.argument.number: self.shared.remaining_bytes(flow) for flow in flows}
        self.seen.append([by_load.get(number, 0.0) for number in range(len(self.program.transfers[transfer].loads))])

    def carried(self) -> None:
        self.seen.append([self.shared.bytes_carried(link) for link in self.links])

    @property
    def by_transfer(self) -> dict[int, list[tuple[float, int]]]:
        """The ends of each transfer, in the order of the calls."""
        ends: dict[int, list[tuple[float, int]]] = {}
        for moment, transfer, load in self.ends:
            ends.setdefault(transfer, []).append((moment, load))
        return dict(sorted(ends.items()))
