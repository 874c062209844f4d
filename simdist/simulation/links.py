"""Links and flows, and a link's books about flows that another link limits.

Every flow has one *bottleneck*: the link that gives it its rate. The flows that a link limits are its *own* flows and
share one rate, the link's *level*; all others on it are its *guests*. Own flows form a processor-sharing queue: with
``served`` the bytes that each of them has got, one that came at ``served = v`` with n bytes ends at ``served = v + n``,
whatever the level does in between. So a change of level touches the link, not its flows.

A link with own flows keeps *books*: how many guests it has from which bottleneck, and what they take together. A link
without own flows needs none as long as no guest is faster than its *allowance*, the capacity divided by the number of
flows that it has room for; each bottleneck knows the smallest allowance on the routes of its own flows, its *ceiling*.
A link of infinite bandwidth never keeps books: nothing is too fast for it, its own flows end in the moment in which they
come, and what infinite rates leave of each other is no number.

Invariants, between two settlements:

- ``len(flows) <= room_for`` and ``level <= ceiling <= allowance`` wherever no books are kept.
- ``guests`` and ``followers`` mirror each other: ``a.guests[b] == b.followers[a]``, the flows on a that b limits.
- A link without own flows is at rest: level 0, served 0, an empty queue.

What may live here: what one link knows. Not: who limits whom, the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify
from math import inf
from typing import Any

__all__ = [
    "Flow",
    "Link",
    "RESTART_BYTES",
    "ROUNDING",
    "advance",
    "close_books",
    "guest_comes",
    "guest_leaves",
    "make_room",
    "open_books",
    "recount",
    "restart",
]

# Rates that differ by less are equal: what is left of a capacity is known to the rounding of a sum.
ROUNDING = 1.0 + 1e-12
# Where a queue counts from zero again, so that `served` keeps its digits on a link that is never idle.
RESTART_BYTES = 2.0**36


class Flow:
    """The bytes of a message on their way over some links."""

    __slots__ = ("argument", "bottleneck", "done", "ends_at", "links", "num_bytes", "remaining", "sequence")

    def __init__(self, links: tuple[Link, ...], num_bytes: float, done: Callable[..., object], argument: object, sequence: float) -> None:
        self.links = links
        self.num_bytes = num_bytes
        self.remaining = num_bytes  # when it came to its bottleneck
        self.done: Callable[..., object] | None = done  # None: it has ended
        self.argument: Any = argument  # of `done`, which knows its type
        self.sequence = sequence
        self.bottleneck: Link | None = None
        self.ends_at = 0.0  # the value of its bottleneck's `served`

    def __lt__(self, other: Flow) -> bool:
        return self.sequence < other.sequence

    def __repr__(self) -> str:
        return f"Flow({self.num_bytes:g} bytes over {', '.join(link.name for link in self.links)})"


class Link:
    """One direction of a port, cable or bus.

    Args:
        name: for messages.
        bandwidth_bytes_per_s: its capacity; `SharedLinks.set_bandwidth` changes it.

    Attributes:
        flows: all flows over it, but for those that have it for themselves; they are
        quiet: flows that have all their links for themselves (quiet.py); None where there are none.
        bytes_carried: bytes of the flows over it that have ended.
    """

    __slots__ = (
        "allowance",
        "bandwidth_bytes_per_s",
        "books",
        "bytes_carried",
        "ceiling",
        "dirty",
        "drift",
        "due_s",
        "fastest_guest",
        "flows",
        "followers",
        "guest_rate",
        "guests",
        "level",
        "name",
        "num_own",
        "queue",
        "quiet",
        "room_for",
        "served",
        "updated_s",
        "wake_s",
    )

    def __init__(self, name: str, bandwidth_bytes_per_s: float) -> None:
        self.name = name
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.flows: dict[Flow, None] = {}
        self.quiet: Any = None  # QuietFlows, of a file above
        self.bytes_carried = 0.0
        # The queue of its own flows.
        self.num_own = 0
        self.level = 0.0
        self.served = 0.0
        self.updated_s = 0.0  # when `served` had that value
        self.queue: list[tuple[float, float, Flow]] = []  # (served at its end, sequence, flow); may hold flows that left
        self.due_s = inf  # the next end
        self.wake_s = inf  # when the clock will ask for it; earlier than due_s where the end was put off
        # What it knows about its guests, and what others know about its own flows.
        self.books = False
        self.guests: dict[Link, int] = {}
        self.guest_rate = 0.0
        self.fastest_guest = 0.0  # or more
        self.drift = 0  # changes of guest_rate since it was added up
        self.followers: dict[Link, int] = {}
        self.room_for = 1
        self.allowance = bandwidth_bytes_per_s * ROUNDING
        self.ceiling = inf
        self.dirty = False

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing on it, so that flows which start now may have it for themselves."""
        return self.quiet is None and not self.flows and not self.books

    def __repr__(self) -> str:
        return f"Link({self.name!r}, {self.bandwidth_bytes_per_s:g} B/s, {len(self.flows)} flows)"


def advance(link: Link, now: float) -> None:
    """Bring `served` up to the present moment."""
    if now > link.updated_s:
        link.served += link.level * (now - link.updated_s)
        link.updated_s = now


def restart(link: Link) -> None:
    """Count from zero again; every flow keeps what it still has to get."""
    served, link.served = link.served, 0.0
    kept = [(ends_at, flow) for ends_at, _, flow in link.queue if flow.bottleneck is link and flow.ends_at == ends_at]
    for ends_at, flow in kept:
        flow.ends_at = ends_at - served
    link.queue[:] = [(flow.ends_at, flow.sequence, flow) for _, flow in kept]
    heapify(link.queue)


def make_room(link: Link) -> float:
    """Have room for somewhat more flows than there are, and never less for each unless it must; returns the allowance."""
    flows = len(link.flows)
    room = flows + flows // 2 if flows > 4 else flows or 1
    if not flows <= link.room_for <= room:
        link.room_for = room
    link.allowance = link.bandwidth_bytes_per_s / link.room_for * ROUNDING
    return link.allowance


def open_books(link: Link) -> None:
    """Register all guests."""
    if link.bandwidth_bytes_per_s == inf:
        return
    link.books = True
    for flow in link.flows:
        bottleneck = flow.bottleneck
        if bottleneck is not None and bottleneck is not link:
            guest_comes(link, bottleneck)


def close_books(link: Link) -> None:
    """Forget the guests, who may all have what the link has room for."""
    link.books = False
    granted = make_room(link)
    for bottleneck in link.guests:
        del bottleneck.followers[link]
        if granted < bottleneck.ceiling:
            bottleneck.ceiling = granted
    link.guests.clear()
    link.guest_rate = link.fastest_guest = 0.0


def guest_comes(link: Link, bottleneck: Link) -> None:
    """Note one more flow on `link` that is limited by `bottleneck`."""
    count = link.guests.get(bottleneck, 0) + 1
    link.guests[bottleneck] = bottleneck.followers[link] = count
    link.guest_rate += bottleneck.level
    link.drift += 1
    if bottleneck.level > link.fastest_guest:
        link.fastest_guest = bottleneck.level


def guest_leaves(link: Link, bottleneck: Link) -> None:
    """Note one flow less on `link` that is limited by `bottleneck`."""
    count = link.guests[bottleneck] - 1
    if count:
        link.guests[bottleneck] = bottleneck.followers[link] = count
    else:
        del link.guests[bottleneck], bottleneck.followers[link]
        if not link.guests:
            link.guest_rate = link.fastest_guest = 0.0
            return
    link.guest_rate -= bottleneck.level
    link.drift += 1


def recount(link: Link) -> None:
    """Add up the rates of the guests; after as many changes as there are guests, so that it costs little and never drifts."""
    total = fastest = 0.0
    for bottleneck, count in link.guests.items():
        level = bottleneck.level
        total += count * level
        if level > fastest:
            fastest = level
    link.guest_rate, link.fastest_guest, link.drift = total, fastest, 0
