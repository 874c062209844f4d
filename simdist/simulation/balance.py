"""Levels and bottlenecks of links, repaired after flows started or ended.

Rates are max-min fair exactly when every flow has a bottleneck: a full link on which no flow is faster. With levels
(`links.py`) that means: (1) a link with own flows gives each of them an equal part of what its guests leave, and no
guest is faster than that; (2) the guests of a link without own flows do not take more than it has.

So a link whose flows, capacity or guests changed computes its level anew. When the level is another, the links that
keep books about its own flows are next. Where a link finds a guest that is faster than its own flows would be, or
guests that take too much, it *pulls*: the fastest become own flows, until what remains is fair; the links that limited
them so far are next. That is how switches agree on rates by messages (Charny, Clark and Jain, Congestion control with
explicit rate indication, ICC 1995), and it touches only what a change reaches. Links that pull flows from each other
for too long are filled anew by the textbook method (`filling.py`).

Invariant: no virtual time passes between a change and `settle`, so it does not matter in which order changes came.

What may live here: moves between bottlenecks. Not: the clock's events.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from simdist.simulation.filling import connected, max_min
from simdist.simulation.links import (
    ROUNDING,
    Flow,
    Link,
    advance,
    close_books,
    guest_comes,
    guest_leaves,
    make_room,
    open_books,
    recount,
)

__all__ = ["Balance", "next_end"]

# A level that differs by less is the old one: links that are exactly full together would pass roundings round for ever.
SAME = 1e-14
# Books with more guests stay open when the last own flow has gone: it costs less than to make them again for the next.
FEW = 8


class Balance:
    """Max-min fair levels of links, mended after every change.

    Attributes:
        changed: links that have to be looked at.
        moves: how many flows got another bottleneck.
        refills: how often mending was given up for filling anew.
        patience: visits of links after which it is, and 30 more for each link that changed.
    """

    def __init__(self) -> None:
        self.changed: list[Link] = []
        self.moves = 0
        self.refills = 0
        self.patience = 400

    def mark(self, link: Link) -> None:
        if not link.dirty:
            link.dirty = True
            self.changed.append(link)

    # -- flows come and go ----------------------------------------------------------------------------------------

    def join(self, flow: Flow, now: float) -> None:
        """Find a bottleneck for a flow: the link with the smallest share, which is the right one nearly always."""
        links = flow.links
        best = links[0]
        least = best.bandwidth_bytes_per_s / len(best.flows)
        for link in links:
            if link.bandwidth_bytes_per_s < least * len(link.flows):
                best, least = link, link.bandwidth_bytes_per_s / len(link.flows)
        self.enter(flow, best, now)

    def enter(self, flow: Flow, bottleneck: Link, now: float) -> None:
        """Make a flow one of the bottleneck's own."""
        if bottleneck.num_own:
            if now > bottleneck.updated_s:
                advance(bottleneck, now)
        else:
            bottleneck.updated_s = now
            if not bottleneck.books:
                open_books(bottleneck)
        flow.bottleneck = bottleneck
        flow.ends_at = ends_at = bottleneck.served + flow.remaining
        heappush(bottleneck.queue, (ends_at, flow.sequence, flow))
        bottleneck.num_own += 1
        if not bottleneck.dirty:
            bottleneck.dirty = True
            self.changed.append(bottleneck)
        for link in flow.links:
            if link is bottleneck:
                continue
            if link.books:
                guest_comes(link, bottleneck)
                self.mark(link)
                continue
            if len(link.flows) > link.room_for:
                self.narrow(link)
            if link.allowance < bottleneck.ceiling:
                bottleneck.ceiling = link.allowance

    def leave(self, flow: Flow, now: float) -> None:
        """Take a flow from its bottleneck; it stays on its links."""
        bottleneck = flow.bottleneck
        assert bottleneck is not None
        advance(bottleneck, now)
        flow.remaining = max(0.0, flow.ends_at - bottleneck.served)
        flow.bottleneck = None
        bottleneck.num_own -= 1
        bottleneck.due_s = inf
        for link in flow.links:
            if link.books and link is not bottleneck:
                guest_leaves(link, bottleneck)
                self.mark(link)
        if not bottleneck.num_own:
            self.rest(bottleneck)
        elif len(bottleneck.queue) > 4 * bottleneck.num_own + 64:
            bottleneck.queue[:] = sorted(entry for entry in bottleneck.queue if _is_valid(entry, bottleneck))
        self.mark(bottleneck)

    def rest(self, link: Link) -> None:
        """Note that the link limits no flow any more."""
        link.level = link.served = 0.0
        link.ceiling = link.due_s = inf
        link.queue.clear()

    def narrow(self, link: Link) -> None:
        """Notify the limits of a link's flows that it has more flows than its allowance counts, or less capacity."""
        granted = make_room(link)
        for flow in link.flows:
            bottleneck = flow.bottleneck
            if bottleneck is not None and granted < bottleneck.ceiling:
                bottleneck.ceiling = granted
                if bottleneck.level > granted:
                    self.mark(bottleneck)

    # -- levels ---------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """Make all levels fair again. Afterwards `changed` holds every link whose next end may differ."""
        changed = self.changed
        limit = self.patience + 30 * len(changed)
        for link in changed:  # which grows meanwhile
            link.dirty = False
            own = link.num_own
            if link.guests:
                if len(changed) > limit:
                    self._refill(now)
                    break
                if link.drift >= len(link.guests):
                    recount(link)
                if link.bandwidth_bytes_per_s * ROUNDING - link.guest_rate < link.fastest_guest * own:
                    self._pull(link, now)
                    own = link.num_own
                if not own:
                    if len(link.guests) <= FEW and link.fastest_guest <= make_room(link):
                        close_books(link)
                    continue
                level = (link.bandwidth_bytes_per_s - link.guest_rate) / own
                if abs(level - link.level) <= SAME * level:
                    level = link.level
            elif own:
                level = link.bandwidth_bytes_per_s / own
            else:
                if link.books:
                    close_books(link)
                continue
            if level != link.level:
                if link.followers:
                    self._set_level(link, level, now)
                else:
                    if now > link.updated_s:
                        advance(link, now)
                    link.level = level
            if level > link.ceiling:
                self.find_ceiling(link)

    def _set_level(self, link: Link, level: float, now: float) -> None:
        """Change the level, and tell the links that keep books about it."""
        if now > link.updated_s:
            advance(link, now)
        change, link.level = level - link.level, level
        for follower, count in link.followers.items():
            follower.guest_rate += count * change
            follower.drift += 1
            if level > follower.fastest_guest:
                follower.fastest_guest = level
            if not follower.dirty:
                follower.dirty = True
                self.changed.append(follower)

    def find_ceiling(self, link: Link) -> None:
        """The level is above the ceiling: find the ceiling anew, and open the books of the links that it is too high for."""
        level, ceiling = link.level, inf
        for flow in link.flows:
            if flow.bottleneck is link:
                for other in flow.links:
                    if other.books:
                        continue
                    granted = make_room(other)
                    if granted < level:
                        open_books(other)
                        self.mark(other)
                    elif granted < ceiling:
                        ceiling = granted
        link.ceiling = ceiling

    # -- moves ----------------------------------------------------------------------------------------------------

    def _pull(self, link: Link, now: float) -> None:
        """Make the fastest guests own flows, until none is faster than those and all find room."""
        recount(link)  # the fastest may have left
        own, left = link.num_own, link.bandwidth_bytes_per_s * ROUNDING - link.guest_rate
        pulled: dict[Link, None] = {}
        for guest in sorted(link.guests, key=_level, reverse=True):
            if guest.level * own <= left:
                break
            count = link.guests[guest]
            own, left = own + count, left + count * guest.level
            pulled[guest] = None
        if not pulled:
            return
        link.dirty = True  # its own pulls are no reason to come back
        for flow in [flow for flow in link.flows if flow.bottleneck in pulled]:
            self.leave(flow, now)
            self.enter(flow, link, now)
            self.moves += 1
        recount(link)  # what is left after a large subtraction would be roundings
        link.dirty = False

    def _refill(self, now: float) -> None:
        """Give up mending: fill everything anew that the changed links are connected with."""
        self.refills += 1
        flows, links = connected(self.changed)
        for flow in flows:
            if flow.bottleneck is not None:
                self.leave(flow, now)
        for link in links:
            close_books(link)
        rates: dict[Link, float] = {}
        for flow, link, rate in max_min(flows, links):
            self.enter(flow, link, now)
            rates[link] = rate
        for link, rate in rates.items():
            self._set_level(link, rate, now)
        for link in rates:
            if link.level > link.ceiling:
                self.find_ceiling(link)
        for link in self.changed:
            link.dirty = False


def _level(link: Link) -> float:
    return link.level


def _is_valid(entry: tuple[float, float, Flow], link: Link) -> bool:
    return entry[2].bottleneck is link and entry[2].ends_at == entry[0]


def next_end(link: Link) -> float:
    """When the next own flow of a link ends, at its present level; infinite where it has none or stalls."""
    queue = link.queue
    while queue and not _is_valid(queue[0], link):
        heappop(queue)
    if not queue or not link.level:
        return inf
    return link.updated_s + (queue[0][0] - link.served) / link.level
