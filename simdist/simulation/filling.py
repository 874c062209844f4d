"""Max-min fair rates from nothing: the textbook method, for when mending the old rates takes too long.

No flow can get more without taking from one that has less. All flows grow at the same speed; the link that is full
first stops its flows at that rate, the others go on growing (Bertsekas and Gallager, Data Networks, 1992, section
6.5.2). What is left for each flow of a link never falls from round to round, so a heap of the links by that share,
corrected when a link comes to its top, finds the next full link.

What may live here: functions of links and flows that change neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf

from simdist.simulation.links import Flow, Link

__all__ = ["connected", "max_min"]


def connected(links: Iterable[Link]) -> tuple[list[Flow], list[Link]]:
    """All flows, in order of their start, and all links that these links could influence."""
    found: dict[Link, None] = dict.fromkeys(links)
    flows: dict[Flow, None] = {}
    frontier = list(found)
    while frontier:
        for flow in frontier.pop().flows:
            if flow not in flows:
                flows[flow] = None
                for link in flow.links:
                    if link not in found:
                        found[link] = None
                        frontier.append(link)
    return sorted(flows), list(found)


def max_min(flows: Iterable[Flow], links: Iterable[Link]) -> list[tuple[Flow, Link, float]]:
    """Bottleneck and rate of every flow.

    Args:
        flows: all flows over these links.
        links: all links of these flows.

    Returns:
        (flow, bottleneck, bytes per second), the slowest first.

    Example:
        >>> narrow, wide = Link("narrow", 2.0), Link("wide", 10.0)
        >>> both, alone = (Flow(way, 1.0, print, None, i) for i, way in enumerate([(narrow, wide), (wide,)]))
        >>> narrow.flows, wide.flows = {both: None}, {both: None, alone: None}
        >>> [(bottleneck.name, rate) for _, bottleneck, rate in max_min([both, alone], [narrow, wide])]
        [('narrow', 2.0), ('wide', 8.0)]
    """
    left = {link: link.bandwidth_bytes_per_s for link in links}
    growing = {link: len(link.flows) for link in left}
    pending = dict.fromkeys(flows)
    order = {link: i for i, link in enumerate(left)}
    heap = [(left[link] / growing[link], order[link], link) for link in left if growing[link]]
    heapify(heap)
    result: list[tuple[Flow, Link, float]] = []
    while pending:
        share, _, full = heappop(heap)
        if not growing[full]:
            continue
        rate = left[full] / growing[full]
        if rate > share:
            heappush(heap, (rate, order[full], full))
            continue
        for flow in [flow for flow in full.flows if flow in pending]:
            del pending[flow]
            result.append((flow, full, rate))
            for link in flow.links:
                left[link] = max(0.0, left[link] - rate) if left[link] < inf else inf
                growing[link] -= 1
    return result
