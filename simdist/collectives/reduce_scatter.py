"""Reduce-scatter: every rank has all the data, and in the end each rank has the sum of one part.

The first half of a ring all-reduce: a chunk travels once round the ring and grows at every rank. It starts one rank
after the one that is to have it, so that it ends there: chunk r is that of rank r.

Source: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, 2009.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer

__all__ = ["RING_REDUCE_SCATTER"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a ring reduce-scatter among `num_ranks` ranks; rank r ends with the sum of chunk r.

    Example:
        >>> [(t.step, t.source, t.target, t.chunks) for t in schedule(3).transfers if t.target == 0]
        [(0, 2, 0, (1,)), (1, 2, 0, (0,))]
    """
    n = num_ranks
    transfers = [Transfer(step, rank, (rank + 1) % n, ((rank - 1 - step) % n,), True) for step in range(n - 1) for rank in range(n)]
    return Schedule("reduce_scatter", "ring", n, n, tuple(transfers))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """n - 1 latencies, and (n - 1) / n of the data."""
    return (num_ranks - 1) * (latency_s + size_bytes / num_ranks / bandwidth_bytes_per_s)


RING_REDUCE_SCATTER = Algorithm("reduce_scatter", "ring", schedule, seconds)
