"""The ring: every rank sends only to its neighbour, and all links are busy all the time.

In n - 1 steps each rank passes one chunk on to the next rank, which adds its own: then rank r holds the whole sum of chunk
r + 1 (reduce-scatter). In n - 1 further steps the sums travel round once more (all-gather). Every rank sends
2 (n - 1) / n of its data, which is the least that is possible; but it takes 2 (n - 1) latencies.

Source: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, 2009.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer

__all__ = ["RING"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a ring all-reduce among `num_ranks` ranks."""
    n = num_ranks
    adding = [Transfer(step, rank, (rank + 1) % n, ((rank - step) % n,), True) for step in range(n - 1) for rank in range(n)]
    passing = [Transfer(n - 1 + step, rank, (rank + 1) % n, ((rank + 1 - step) % n,), False) for step in range(n - 1) for rank in range(n)]
    return Schedule("all_reduce", "ring", n, n, tuple(adding + passing))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """2 (n - 1) latencies, and 2 (n - 1) / n of the data."""
    steps = 2 * (num_ranks - 1)
    return steps * (latency_s + size_bytes / num_ranks / bandwidth_bytes_per_s)


RING = Algorithm("all_reduce", "ring", schedule, seconds)
