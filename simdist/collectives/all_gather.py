"""All-gather: each rank has a part, and in the end every rank has all parts.

The data of a schedule is the *result*: chunk r is the part of rank r, which no other rank has in the beginning, and the
bytes of a closed form are those of the result.

Ring: n - 1 steps; each rank passes on what it got in the step before. Recursive doubling: partners swap all that they have, so
that it doubles in each of log2 n steps; for powers of two. Bruck: as many steps, rounded up, for any number of ranks: in step
k each rank sends to the one 2^k places before it, so that a rank always has a run of parts that begins with its own.
All three move (n - 1) / n of the result, the least that is possible; they differ in the number of latencies.

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005;
Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
Systems, 1997.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer
from simdist.collectives.binomial import num_levels
from simdist.errors import InvalidArgumentError

__all__ = ["BRUCK_ALL_GATHER", "RECURSIVE_DOUBLING_ALL_GATHER", "RING_ALL_GATHER"]


@cache
def ring(num_ranks: int) -> Schedule:
    """The transfers of a ring all-gather: each rank passes on the newest part that it has.

    Example:
        >>> [(t.step, t.target, t.chunks) for t in ring(4).transfers if t.source == 0]
        [(0, 1, (0,)), (1, 1, (3,)), (2, 1, (2,))]
    """
    n = num_ranks
    transfers = [Transfer(step, rank, (rank + 1) % n, ((rank - step) % n,), False) for step in range(n - 1) for rank in range(n)]
    return Schedule("all_gather", "ring", n, n, tuple(transfers))


@cache
def recursive_doubling(num_ranks: int) -> Schedule:
    """The transfers of a recursive-doubling all-gather.

    Raises:
        InvalidArgumentError: the number of ranks is no power of two.

    Example:
        >>> [(t.step, t.target, t.chunks) for t in recursive_doubling(4).transfers if t.source == 0]
        [(0, 1, (0,)), (1, 2, (0, 1))]
    """
    n = num_ranks
    if n & (n - 1):
        raise InvalidArgumentError(f"A recursive-doubling all-gather needs a power of two; got {n} ranks. Use 'bruck' or 'ring'.")
    transfers = [
        Transfer(step, rank, rank ^ (1 << step), tuple(range(rank >> step << step, (rank >> step << step) + (1 << step))), False)
        for step in range(num_levels(n))
        for rank in range(n)
    ]
    return Schedule("all_gather", "recursive doubling", n, n, tuple(transfers))


@cache
def bruck(num_ranks: int) -> Schedule:
    """The transfers of Bruck's all-gather.

    Example:
        >>> [(t.step, t.target, t.chunks) for t in bruck(3).transfers if t.source == 0]
        [(0, 2, (0,)), (1, 1, (0,))]
    """
    n = num_ranks
    transfers = [
        Transfer(step, rank, (rank - (1 << step)) % n, tuple(sorted((rank + i) % n for i in range(min(1 << step, n - (1 << step))))), False)
        for step in range(num_levels(n))
        for rank in range(n)
    ]
    return Schedule("all_gather", "bruck", n, n, tuple(transfers))


def ring_seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """n - 1 latencies, and (n - 1) / n of the result."""
    return (num_ranks - 1) * (latency_s + size_bytes / num_ranks / bandwidth_bytes_per_s)


def doubling_seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """log2 n latencies, rounded up, and (n - 1) / n of the result."""
    return num_levels(num_ranks) * latency_s + (num_ranks - 1) / num_ranks * size_bytes / bandwidth_bytes_per_s


RING_ALL_GATHER = Algorithm("all_gather", "ring", ring, ring_seconds)
RECURSIVE_DOUBLING_ALL_GATHER = Algorithm("all_gather", "recursive doubling", recursive_doubling, doubling_seconds)
BRUCK_ALL_GATHER = Algorithm("all_gather", "bruck", bruck, doubling_seconds)
