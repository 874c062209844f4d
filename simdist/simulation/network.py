"""Messages between tasks: latency first, then bandwidth that is shared with every other message on the same link.

A message is a *flow* over the links of its route. A link shares its capacity max-min fairly: no flow can get more
without taking from one that has less. Contention at a parameter server's port therefore appears by itself.

Between two changes all rates are constant, so flows need no events of their own on the way (`settlement.py`). A flow that
has all its links for itself starts at once. The flows of a transfer that finds all its links idle can be in closed form
until another one comes (`quiet.py`).

Not simulated: packets, TCP's slow start and losses, protocol overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappush
from math import inf, isfinite
from typing import TypeVar, overload

from simpy.events import NORMAL

from simdist.errors import InvalidArgumentError
from simdist.simulation.course import Course, Load
from simdist.simulation.kernel import Clock
from simdist.simulation.links import Flow, Link, make_room
from simdist.simulation.quiet import ClosedForm, QuietFlows, let_go

__all__ = ["Course", "Flow", "Link", "QuietFlows", "SharedLinks"]

A = TypeVar("A")
L = TypeVar("L", bound=Load)


class SharedLinks(ClosedForm):
    """Max-min fair sharing of links among flows, in the virtual time of a clock.

    Attributes:
        epoch: how often a bandwidth has changed.

    Example:
        >>> clock = Clock()
        >>> links, port = SharedLinks(clock), Link("ps:0/in", 100e6)
        >>> ends = []
        >>> for worker in range(4):
        ...     _ = links.start((port,), 1e6, lambda worker: ends.append((worker, round(clock.now, 9))), worker)
        >>> clock.sleep(1.0)
        >>> ends
        [(0, 0.04), (1, 0.04), (2, 0.04), (3, 0.04)]
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.epoch = 0

    @property
    def refills(self) -> int:
        """The number of times that rates had to be computed from nothing."""
        return self._balance.refills

    @property
    def moves(self) -> int:
        """The number of flows that changed their bottleneck."""
        return self._balance.moves

    @overload
    def start(self, links: tuple[Link, ...], num_bytes: float, done: Callable[[None], object]) -> Flow: ...
    @overload
    def start(self, links: tuple[Link, ...], num_bytes: float, done: Callable[[A], object], argument: A) -> Flow: ...
    def start(self, links: tuple[Link, ...], num_bytes: float, done: Callable[..., object], argument: object = None) -> Flow:
        """Start a flow now.

        Args:
            links: its route: one link or more, each once.
            num_bytes: its size.
            done: is called as ``done(argument)`` when the last byte has arrived.
            argument: of `done`.
        """
        flow = Flow(links, num_bytes, done, argument, next(self._sequence))
        alone, unfolds = True, False
        for link in links:
            if link.quiet is not None:
                self._unfold(link.quiet)
                unfolds = True
            if link.flows or link.books:
                alone = False
            link.flows[flow] = None
        if alone:
            self._start_alone(flow)
        else:
            self._new.append(flow)
        if (unfolds or not alone) and not self._settling:
            self._settle_soon()
        return flow

    def start_all(self, flows: Iterable[tuple[tuple[Link, ...], float, Callable[[A], object], A]]) -> list[Flow]:
        """Start the flows of one transfer at once: (links, num_bytes, done, argument) of each, as in `start`."""
        started: list[Flow] = []
        for links, num_bytes, done, argument in flows:
            flow = Flow(links, num_bytes, done, argument, next(self._sequence))
            for link in links:
                if link.quiet is not None:
                    self._unfold(link.quiet)
                link.flows[flow] = None
            started.append(flow)
        if started:
            self._new += started
            if not self._settling:
                self._settle_soon()
        return started

    def start_loads(self, loads: Sequence[L], done: Callable[[L], object]) -> list[Flow]:
        """Start the flows of one transfer at once; `done` is called with each load when it has arrived."""
        started: list[Flow] = []
        for load in loads:
            flow = Flow(load.links, load.size_bytes, done, load, next(self._sequence))
            for link in load.links:
                if link.quiet is not None:
                    self._unfold(link.quiet)
                link.flows[flow] = None
            started.append(flow)
        self._new += started
        if not self._settling:
            self._settle_soon()
        return started

    def stop(self, flow: Flow | QuietFlows) -> None:
        """Drop a flow: its `done` is never called."""
        if isinstance(flow, QuietFlows):
            flow.done = flow.all_done = let_go
            if flow.is_quiet:
                self._unfold(flow)
            for one in flow.flows:
                self.stop(one)
            return
        if flow.done is None:
            return
        flow.done = None
        if flow.bottleneck is not None:
            self._balance.leave(flow, self.clock.now)
        for link in flow.links:
            del link.flows[flow]
            link.bytes_carried += flow.num_bytes - flow.remaining
        if not self._settling:
            self._settle_soon()

    def set_bandwidth(self, link: Link, bandwidth_bytes_per_s: float) -> None:
        """Give a link another capacity, whatever is on it; with 0 its flows stall until it is raised again.

        Raises:
            InvalidArgumentError: the bandwidth is negative or not finite.
        """
        if not (isfinite(bandwidth_bytes_per_s) and bandwidth_bytes_per_s >= 0.0):
            raise InvalidArgumentError(
                f"{link.name} cannot have a bandwidth of {bandwidth_bytes_per_s} bytes/s. Give it a number >= 0; 0 cuts the link."
            )
        if link.quiet is not None:
            self._unfold(link.quiet)
        self.epoch += 1
        link.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self._balance.narrow(link)
        self._balance.mark(link)
        if not self._settling:
            self._settle_soon()

    def remaining_bytes(self, flow: Flow) -> float:
        """The bytes that a flow still has to carry at this moment."""
        link = flow.bottleneck
        if link is None:
            return flow.remaining
        # Looking changes nothing, not even a rounding.
        return max(0.0, flow.ends_at - link.served - link.level * (self.clock.now - link.updated_s))

    def bytes_carried(self, link: Link) -> float:
        """All bytes that a link has carried up to this moment, those of flows on their way too."""
        carried = link.bytes_carried + sum(flow.num_bytes - self.remaining_bytes(flow) for flow in link.flows)
        quiet: QuietFlows | None = link.quiet
        if quiet is not None:
            served = quiet.served(self.clock.now)
            # Where nothing limits them, `served` is no number before their end, and all bytes have arrived.
            carried += sum(min(load.size_bytes, served) for load in quiet.course.loads if link in load.links)
        return carried

    def bytes_arrived(self, link: Link) -> float:
        """The bytes of the flows over a link that have ended, or were stopped."""
        quiet: QuietFlows | None = link.quiet
        if quiet is None:
            return link.bytes_carried
        loads = quiet.course.loads
        ended = [loads[number] for number in quiet.arrived(self.clock.now)]
        return link.bytes_carried + sum(load.size_bytes for load in ended if link in load.links)

    # -- one flow --------------------------------------------------------------------------------------------------

    def _start_alone(self, flow: Flow) -> None:
        """Nothing else is on any of its links: the narrowest limits it."""
        links = flow.links
        narrowest = links[0]
        bandwidth = narrowest.bandwidth_bytes_per_s
        for link in links:
            if link.room_for > 1:
                make_room(link)
            if link.bandwidth_bytes_per_s < bandwidth:
                narrowest, bandwidth = link, link.bandwidth_bytes_per_s
        flow.bottleneck = narrowest
        flow.ends_at = num_bytes = flow.num_bytes
        narrowest.num_own = 1
        narrowest.books = bandwidth < inf
        narrowest.level = narrowest.ceiling = bandwidth
        narrowest.updated_s = now = self.clock.now
        narrowest.queue.append((num_bytes, flow.sequence, flow))
        if bandwidth:
            narrowest.due_s = due = now + num_bytes / bandwidth
            if due < narrowest.wake_s:
                narrowest.wake_s = due
                heappush(self._events, (due, NORMAL, next(self._event_numbers), self._complete, narrowest))
