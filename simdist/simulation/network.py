"""Messages between tasks: latency first, then bandwidth that is shared with every other message on the same link.

A message is a *flow* over the links of its route. A link shares its capacity max-min fairly: no flow can get more
without taking from one that has less. Contention at a parameter server's port therefore appears by itself.

How it is computed. Every flow has one *bottleneck*, the link that limits it. All flows of a bottleneck have the same
rate, so a bottleneck is a processor-sharing queue: with ``served`` the bytes that each of its flows has got since the
link was made, a flow that came at ``served = v`` with n bytes ends when ``served = v + n``. A heap of these ends needs
O(log n) for a flow that comes or goes, however many others there are. That is exact as long as no flow's bottleneck
moves, and it cannot move while every flow's rate is at most its *entitlement* on its other links (capacity divided by
the number of flows there). Where that fails, the connected flows are filled again by the textbook method (Bertsekas
and Gallager, Data Networks, 1992, section 6.5.2).

Not simulated: packets, TCP's slow start and losses, protocol overhead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from simdist.simulation.kernel import Clock

__all__ = ["Flow", "Link", "SharedLinks"]


class Flow:
    """Bytes on their way over some links."""

    __slots__ = ("argument", "bottleneck", "done", "ends_at", "links", "rate", "remaining", "sequence", "started_s")

    def __init__(self, links: Sequence[Link], num_bytes: float, done: Callable[[Any], None], argument: Any, sequence: int, now: float) -> None:
        self.links = links
        self.remaining = float(num_bytes)
        self.done: Callable[[Any], None] | None = done
        self.argument = argument
        self.sequence = sequence
        self.started_s = now
        self.bottleneck: Link | None = None
        self.ends_at = 0.0
        self.rate = 0.0

    def __lt__(self, other: Flow) -> bool:
        return self.sequence < other.sequence


class Link:
    """One direction of a port, cable or bus, with a capacity in bytes per second."""

    __slots__ = (
        "bandwidth_bytes_per_s",
        "entitlements",
        "flows",
        "limited",
        "name",
        "queue",
        "rate",
        "served",
        "ticket",
        "updated_s",
    )

    def __init__(self, name: str, bandwidth_bytes_per_s: float) -> None:
        self.name = name
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.flows: dict[Flow, None] = {}  # all flows over this link
        self.limited = 0  # how many of them have their bottleneck here
        self.queue: list[tuple[float, Flow]] = []  # (value of served at which it ends, flow), may hold flows that left
        self.served = 0.0
        self.rate = 0.0
        self.updated_s = 0.0
        self.ticket = 0  # the newest scheduled completion; older ones are void
        self.entitlements: dict[float, int] = {}  # how many limited flows have this smallest share on their other links

    def advance(self, now: float) -> None:
        """Bring `served` up to the present moment."""
        if now > self.updated_s:
            self.served += self.rate * (now - self.updated_s)
            self.updated_s = now

    def __repr__(self) -> str:
        return f"Link({self.name!r}, {self.bandwidth_bytes_per_s:g} B/s, {len(self.flows)} flows)"


class SharedLinks:
    """Max-min fair sharing of links among flows, in the virtual time of a clock.

    Example:
        >>> clock = Clock()
        >>> links, port = SharedLinks(clock), Link("ps:0/in", 100e6)
        >>> ends = []
        >>> for _ in range(4):
        ...     _ = links.start([port], 1e6, lambda: ends.append(round(clock.now, 9)))
        >>> clock.sleep(1.0)
        >>> ends
        [0.04, 0.04, 0.04, 0.04]
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._sequence = 0
        self._irregular: dict[Link, None] = {}  # bottlenecks whose rate is not simply capacity / flows

    def start_all(self, flows: Sequence[tuple[Any, ...]]) -> list[Flow]:
        return [self.start(*flow) for flow in flows]

    def start(self, links: Sequence[Link], num_bytes: float, done: Callable[[Any], None], argument: Any = None) -> Flow:
        """Start a flow now; `done()` is called when its last byte has arrived."""
        self._sequence += 1
        flow = Flow(links, num_bytes, done, argument, self._sequence, self.clock.now)
        for link in links:
            link.flows[flow] = None
            self._share_changes(link, len(link.flows) - 1)
        target = min(links, key=lambda link: link.bandwidth_bytes_per_s / (link.limited + 1))
        simple = not self._irregular and all(link is target or link.limited == 0 for link in links)
        self._enter(flow, target)
        if simple and self._is_regular(target) and self._neighbours_are_regular(flow, target):
            self._reschedule(target)
        else:
            self._refill(flow)
        return flow

    def stop(self, flow: Flow) -> None:
        """Drop a flow: its `done` is never called."""
        if flow.done is not None:
            flow.done = None
            self._remove(flow)

    # -- the fast path: one bottleneck, one rate -------------------------------------------------------------------

    def _is_regular(self, link: Link) -> bool:
        """Whether all flows of this link are limited here, and may have the fair share whatever else is on their other links."""
        if link.limited != len(link.flows):
            return link.limited == 0
        if not link.limited:
            return True
        return link.bandwidth_bytes_per_s / link.limited <= min(link.entitlements) * (1 + 1e-12)

    def _neighbours_are_regular(self, flow: Flow, target: Link) -> bool:
        """Whether a flow that is new on its other links leaves enough for the flows that were there."""
        return all(
            self._is_regular(other.bottleneck)
            for link in flow.links
            if link is not target
            for other in link.flows
            if other.bottleneck is not None and other.bottleneck is not target
        )

    def _entitlement(self, flow: Flow, bottleneck: Link) -> float:
        return min(
            (link.bandwidth_bytes_per_s / len(link.flows) for link in flow.links if link is not bottleneck),
            default=float("inf"),
        )

    def _enter(self, flow: Flow, link: Link) -> None:
        link.advance(self.clock.now)
        flow.bottleneck = link
        flow.ends_at = link.served + flow.remaining
        heapq.heappush(link.queue, (flow.ends_at, flow))
        link.limited += 1
        self._count(link, self._entitlement(flow, link), +1)

    def _leave(self, flow: Flow) -> None:
        link = flow.bottleneck
        assert link is not None
        link.advance(self.clock.now)
        flow.remaining = max(0.0, flow.ends_at - link.served)
        flow.bottleneck = None
        link.limited -= 1
        self._count(link, self._entitlement(flow, link), -1)

    def _count(self, link: Link, entitlement: float, change: int) -> None:
        left = link.entitlements.get(entitlement, 0) + change
        if left:
            link.entitlements[entitlement] = left
        else:
            link.entitlements.pop(entitlement, None)

    def _share_changes(self, link: Link, before: int) -> None:
        """`link` had `before` flows and has another number now: recount what its flows are entitled to elsewhere."""
        if link.limited == len(link.flows):
            return
        for flow in link.flows:
            bottleneck = flow.bottleneck
            if bottleneck is None or bottleneck is link:
                continue
            rest = min(
                (x.bandwidth_bytes_per_s / len(x.flows) for x in flow.links if x is not bottleneck and x is not link),
                default=float("inf"),
            )
            self._count(bottleneck, min(rest, link.bandwidth_bytes_per_s / before), -1)
            self._count(bottleneck, min(rest, link.bandwidth_bytes_per_s / len(link.flows)), +1)

    def _remove(self, flow: Flow) -> None:
        bottleneck = flow.bottleneck
        assert bottleneck is not None
        others_limit = any(link.limited for link in flow.links if link is not bottleneck)
        self._leave(flow)
        for link in flow.links:
            del link.flows[flow]
            self._share_changes(link, len(link.flows) + 1)
        if not others_limit and not self._irregular and self._is_regular(bottleneck):
            self._reschedule(bottleneck)
        else:
            self._refill(flow)

    def _reschedule(self, link: Link) -> None:
        link.advance(self.clock.now)
        link.rate = link.bandwidth_bytes_per_s / link.limited if link.limited else 0.0
        self._schedule_completion(link)

    # -- completions ----------------------------------------------------------------------------------------------

    def _schedule_completion(self, link: Link) -> None:
        queue = link.queue
        while queue and (queue[0][1].bottleneck is not link or queue[0][1].ends_at != queue[0][0]):
            heapq.heappop(queue)
        link.ticket += 1
        if not queue:
            link.served = 0.0 if not link.limited else link.served
            return
        ticket = link.ticket
        delay = max(0.0, (queue[0][0] - link.served) / link.rate)
        self.clock.after(delay, lambda _: self._complete(link, ticket))

    def _complete(self, link: Link, ticket: int) -> None:
        if ticket != link.ticket:
            return
        ends_at, flow = link.queue[0]
        link.advance(self.clock.now)
        # The clock's rounding must not leave a last fraction of a byte behind.
        link.served = max(link.served, ends_at)
        done, flow.done = flow.done, None
        self._remove(flow)
        if done is not None:
            done(flow.argument)

    # -- the general path: fill the connected flows again ----------------------------------------------------------

    def _refill(self, flow: Flow) -> None:
        flows, links = self._component(flow)
        for member in flows:
            self._leave(member)
        for link in links:
            link.advance(self.clock.now)
            link.rate = 0.0
        for member, link, rate in _max_min(flows, links):
            self._enter(member, link)
            link.rate = rate
        for link in links:
            self._schedule_completion(link)
            if self._is_regular(link):
                self._irregular.pop(link, None)
            else:
                self._irregular[link] = None

    def _component(self, flow: Flow) -> tuple[list[Flow], list[Link]]:
        """All flows and links that are connected with this one, in order of arrival."""
        links: dict[Link, None] = dict.fromkeys(flow.links)
        flows: dict[Flow, None] = {}
        frontier = list(links)
        while frontier:
            for member in frontier.pop().flows:
                if member not in flows:
                    flows[member] = None
                    for link in member.links:
                        if link not in links:
                            links[link] = None
                            frontier.append(link)
        return sorted(flows), list(links)


def _max_min(flows: Sequence[Flow], links: Sequence[Link]) -> list[tuple[Flow, Link, float]]:
    """Bottleneck and rate of every flow: fill all equally, freeze the flows of the link that is full first, repeat."""
    capacity = {link: link.bandwidth_bytes_per_s for link in links}
    active = {link: len(link.flows) for link in links}
    pending: dict[Flow, None] = dict.fromkeys(flows)
    result: list[tuple[Flow, Link, float]] = []
    while pending:
        full = min((link for link in links if active[link]), key=lambda link: capacity[link] / active[link])
        rate = capacity[full] / active[full]
        for flow in [flow for flow in full.flows if flow in pending]:
            del pending[flow]
            result.append((flow, full, rate))
            for link in flow.links:
                capacity[link] = max(0.0, capacity[link] - rate)
                active[link] -= 1
    return result
