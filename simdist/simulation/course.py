"""The course of loads that start together on idle links: when each of them ends, worked out before they start.

Where one link limits all of them from start to end, each of n loads gets the n-th part of that link, and the next one to
end is the shortest.

Invariant: the numbers are those that ordinary flows would come to (`settlement.py`), to the last bit, because they are
worked out by the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Protocol

from simdist.simulation.links import RESTART_BYTES, Link

__all__ = ["Course", "Load"]


class Load(Protocol):
    """Bytes that are to travel, and the links of their route: one or more, each once."""

    @property
    def links(self) -> tuple[Link, ...]: ...
    @property
    def size_bytes(self) -> float: ...


class Course:
    """The course of some loads that start together on idle links: worked out once, for as long as no bandwidth changes.

    A *stage* lasts from one end to the next; loads of the same size end together.

    Args:
        loads: that start together.
        epoch: of the bandwidths.

    Attributes:
        links: all links, each once.
        carried: bytes that a link has carried in the end, in the order in which they are counted.
        bottleneck: the link that limits all loads from start to end; None where there is no such link.
        ending: for each stage, which loads end it.
        seconds: how long each stage takes.
        rates: of a load in each stage, in bytes per second.
        served: the bytes that each load has got when a stage begins, counted as the queue of a link does: it may have
            started again from zero. One more for the end.
        restarts: at which counts it did, before each stage.
    """

    __slots__ = ("bottleneck", "carried", "ending", "epoch", "links", "loads", "rates", "restarts", "seconds", "served")

    def __init__(self, loads: Sequence[Load], epoch: int) -> None:
        self.loads = loads
        self.epoch = epoch
        flows: dict[Link, int] = {}
        for load in loads:
            for link in load.links:
                flows[link] = flows.get(link, 0) + 1
        self.links = list(flows)
        self.ending: list[list[int]] = []
        self.seconds: list[float] = []
        self.rates: list[float] = []
        self.served = [0.0]
        self.restarts: list[tuple[float, ...]] = [()]
        self.bottleneck = _common_bottleneck(loads, flows)
        if self.bottleneck is not None and not self._find_stages(self.bottleneck, flows):
            self.bottleneck = None
        self.carried = self._carried() if self.bottleneck is not None else []

    def _find_stages(self, bottleneck: Link, flows: dict[Link, int]) -> bool:
        """Whether this link limits all loads until they end."""
        loads, served, restarts = self.loads, 0.0, ()
        # Two flows of one size end in the order of their start.
        left = sorted(range(len(loads)), key=lambda number: loads[number].size_bytes, reverse=True)
        ends_at = {number: loads[number].size_bytes for number in left}
        # The part that a flow gets of a link never falls: most stages need no look at each of the others.
        others = [link for link in flows if link is not bottleneck]
        least = min([link.bandwidth_bytes_per_s / flows[link] for link in others], default=inf)
        while left:
            rate = bottleneck.bandwidth_bytes_per_s / flows[bottleneck]
            if rate > least:
                least = min([link.bandwidth_bytes_per_s / flows[link] for link in others if flows[link]], default=inf)
                if least < rate:
                    return False
            end = ends_at[left[-1]]
            ending: list[int] = []
            while left and ends_at[left[-1]] == end:
                number = left.pop()
                ending.append(number)
                for link in loads[number].links:
                    flows[link] -= 1
            self.ending.append(sorted(ending))
            self.seconds.append((end - served) / rate)
            self.rates.append(rate)
            served = end
            if end > RESTART_BYTES:
                restarts, served = (*restarts, end), 0.0
                for number in left:
                    ends_at[number] -= end
            self.served.append(served)
            self.restarts.append(restarts)
        return True

    def _carried(self) -> list[tuple[Link, float]]:
        """Sums of whole numbers are exact; others are added up one by one, as they are when flows end."""
        ends = [self.loads[number] for ending in self.ending for number in ending]
        if any(load.size_bytes % 1 for load in ends):
            return [(link, load.size_bytes) for load in ends for link in load.links]
        sums: dict[Link, float] = {}
        for load in ends:
            size_bytes = load.size_bytes
            for link in load.links:
                sums[link] = sums.get(link, 0.0) + size_bytes
        return list(sums.items())


def _common_bottleneck(loads: Sequence[Load], flows: dict[Link, int]) -> Link | None:
    """The link with the smallest part for each flow, if it is the same one for all loads (as `Balance.join` chooses it)."""
    common: Link | None = None
    for load in loads:
        best = load.links[0]
        least = best.bandwidth_bytes_per_s / flows[best]
        for link in load.links[1:]:
            if link.bandwidth_bytes_per_s < least * flows[link]:
                best, least = link, link.bandwidth_bytes_per_s / flows[link]
        if least <= 0.0 or (common is not None and best is not common):
            return None
        common = best
    return common
