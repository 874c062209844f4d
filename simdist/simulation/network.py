"""Messages between tasks: latency first, then bandwidth that is shared with every other message on the same link.

A message is a *flow* over the links of its route. A link shares its capacity max-min fairly: no flow can get more
without taking from one that has less. Contention at a parameter server's port therefore appears by itself.

Between two changes all rates are constant, so flows need no events of their own on the way: each link that limits flows
(`links.py`) asks the clock for one call, at the moment when the first of its flows ends. All changes of one
moment are settled together, after all other events of that moment, because no byte moves in no time
(`balance.py`): a step that starts a thousand messages shares the links once. A flow that has all its links for itself
needs none of that and starts at once.

A call that was asked for stays with the clock when the end is put off; it then asks for another. Only an end that comes
nearer needs a new one.

The flows of a transfer that finds all its links idle are in closed form until somebody else comes (`quiet.py`).

Not simulated: packets, TCP's slow start and losses, protocol overhead. This file puts its own entries into the queue of
SimPy's environment: an end needs an absolute time, and a settlement a later place within its moment than SimPy knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf, isfinite
from typing import TypeVar, overload

from simpy.events import NORMAL

from simdist.errors import InvalidArgumentError
from simdist.simulation.balance import Balance, next_end
from simdist.simulation.kernel import Clock
from simdist.simulation.links import RESTART_BYTES, Flow, Link, guest_leaves, make_room, restart
from simdist.simulation.quiet import ClosedForm, Course, Load, QuietFlows, let_go

__all__ = ["Course", "Flow", "Link", "QuietFlows", "SharedLinks"]

# After everything else that happens in a moment.
AT_LAST = NORMAL + 1


A = TypeVar("A")
L = TypeVar("L", bound=Load)


class SharedLinks:
    """Max-min fair sharing of links among flows, in the virtual time of a clock.

    Attributes:
        epoch: how often a bandwidth has changed.
        start_course: starts flows in closed form, if their links are idle (`ClosedForm.start`).

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
        self.clock = clock
        self._events = clock.queue
        self._event_numbers = clock.sequence
        self._sequence = count()
        self._balance = Balance()
        self._changed = self._balance.changed
        self._new: list[Flow] = []
        self._settling = False
        self.epoch = 0
        self.start_course = ClosedForm(clock, self._sequence).start

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
        alone = True
        for link in links:
            if link.quiet is not None:
                self._unfold(link.quiet)
            if link.flows or link.books:
                alone = False
            link.flows[flow] = None
        if alone:
            self._start_alone(flow)
        else:
            self._new.append(flow)
            if not self._settling:
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

    def _unfold(self, quiet: QuietFlows) -> None:
        """Let loads go on as ordinary flows, as if they had been such from the start."""
        course, now = quiet.course, self.clock.now
        stage, began_s, ends_s = quiet.present(now)
        quiet.is_quiet = False
        for link in course.links:
            link.quiet = None
        loads, bottleneck = course.loads, course.bottleneck
        assert bottleneck is not None
        gone = [number for *_, ending in course.stages[:stage] for number in ending]
        for number in gone:
            for link in loads[number].links:
                link.bytes_carried += loads[number].size_bytes
        size_bytes, more, rate, _ = course.stages[stage]
        bottleneck.served = size_bytes - more
        left = [number for number in range(len(loads)) if number not in gone]
        for number in left:
            load = loads[number]
            flow = Flow(load.links, load.size_bytes, quiet.done, load, quiet.sequence + number / len(loads))
            flow.remaining = load.size_bytes - bottleneck.served
            quiet.flows.append(flow)
            for link in load.links:
                link.flows[flow] = None
        if quiet.is_new and now == quiet.began_s:
            # Whoever comes in the moment of their start is shared with from the beginning.
            bottleneck.served = 0.0
            self._new += quiet.flows
        else:
            for flow in quiet.flows:
                self._balance.enter(flow, bottleneck, began_s)
            bottleneck.level = rate
            if rate > bottleneck.ceiling:
                self._balance.find_ceiling(bottleneck)
            bottleneck.due_s = ends_s
            self._call(bottleneck, ends_s)
        done, is_told_at_once = quiet.done, quiet.all_done is None
        quiet.done = quiet.all_done = let_go
        for number in () if is_told_at_once else gone:
            done(loads[number])

    def flows_of(self, started: list[Flow | QuietFlows]) -> list[Flow]:
        """What was started, as ordinary flows from here on; those that have ended are left out."""
        flows: list[Flow] = []
        for one in started:
            if isinstance(one, Flow):
                flows.append(one)
                continue
            if one.is_quiet:
                self._unfold(one)
                if not self._settling:
                    self._settle_soon()
            flows += one.flows
        return [flow for flow in flows if flow.done is not None]

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
            carried += sum(min(served, load.size_bytes) for load in quiet.course.loads if link in load.links)
        return carried

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
        narrowest.books = True
        narrowest.level = narrowest.ceiling = bandwidth
        narrowest.updated_s = now = self.clock.now
        narrowest.queue.append((num_bytes, flow.sequence, flow))
        if bandwidth:
            narrowest.due_s = due = now + num_bytes / bandwidth
            if due < narrowest.wake_s:
                narrowest.wake_s = due
                heappush(self._events, (due, NORMAL, next(self._event_numbers), self._complete, narrowest))

    def _complete(self, link: Link) -> None:
        """The clock calls at the end of a flow, or where that was before it was put off."""
        now = self.clock.now
        if now != link.wake_s:
            return
        link.wake_s = inf
        if now < link.due_s:
            if link.due_s < inf:
                self._call(link, link.due_s)
            return
        if self._settling:
            self._end_flows(link, now)
            return
        self._settling = True  # whatever starts when a flow has ended is settled below
        try:
            self._end_flows(link, now)
        finally:
            self._settling = False
            if self._changed or self._new:
                self._settle_soon()

    def _end_flows(self, link: Link, now: float) -> None:
        """End the flow that is due, and those of the same size that started with it."""
        queue, changed = link.queue, self._changed
        tied = True
        while tied and link.due_s == now:  # nobody stopped it in between
            ends_at, _, flow = heappop(queue)
            # The clock's rounding must not leave a last fraction of a byte behind.
            link.served = ends_at
            link.updated_s = now
            if ends_at > RESTART_BYTES:
                restart(link)
                ends_at = 0.0
            link.due_s = inf
            num_bytes, done = flow.num_bytes, flow.done
            flow.bottleneck = flow.done = None
            flow.remaining = 0.0
            for other in flow.links:
                del other.flows[flow]
                other.bytes_carried += num_bytes
                if other.books and other is not link:
                    guest_leaves(other, link)
                    if not other.dirty:
                        other.dirty = True
                        changed.append(other)
            link.num_own -= 1
            tied = False
            if link.num_own:
                if not link.dirty:
                    link.dirty = True
                    changed.append(link)
                if queue[0][0] <= ends_at and next_end(link) <= now:
                    tied, link.due_s = True, now
            else:
                self._balance.rest(link)
                if link.flows:
                    self._balance.mark(link)
                else:
                    link.books = False
            assert done is not None
            done(flow.argument)

    def _call(self, link: Link, due: float) -> None:
        """Ask the clock for a call at the next end."""
        link.wake_s = due
        heappush(self._events, (due, NORMAL, next(self._event_numbers), self._complete, link))

    # -- all that happened in a moment -------------------------------------------------------------------------------

    def _settle_soon(self) -> None:
        """Settle now if nothing else is to happen in this moment, and after all of it otherwise."""
        events, now = self._events, self.clock.now
        if events and events[0][0] <= now:
            self._settling = True
            heappush(events, (now, AT_LAST, next(self._event_numbers), self._settle, None))
        else:
            self._settle(None)

    def _settle(self, _argument: None) -> None:
        now, balance, changed = self.clock.now, self._balance, self._changed
        self._settling = False
        if self._new:
            new, self._new = self._new, []
            for flow in new:
                if flow.done is not None:
                    balance.join(flow, now)
        balance.settle(now)
        for link in changed:
            if not link.num_own:
                continue
            ends_at, _, first = link.queue[0]
            if first.bottleneck is link and first.ends_at == ends_at and link.level:
                due = link.updated_s + (ends_at - link.served) / link.level
            else:
                due = next_end(link)
            link.due_s = due = now if due < now else due
            if due < link.wake_s:
                link.wake_s = due
                heappush(self._events, (due, NORMAL, next(self._event_numbers), self._complete, link))
        changed.clear()

