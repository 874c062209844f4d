"""Any number of ranks for an algorithm that needs a power of two.

With p the largest power of two among n ranks, each of the n - p ranks that are left over gives all its data to one of the
first p in a step before the algorithm, and gets the result from it in a step after it. That costs two steps with all the
data. Better ways exist (Rabenseifner splits the extra data among pairs), but this one leaves the algorithm as it is.

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005.

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Iterable

from simdist.collectives.base import Transfer

__all__ = ["folded", "folding_seconds", "power_below"]


def power_below(num_ranks: int) -> int:
    """The largest power of two that is not above `num_ranks`.

    Example:
        >>> [power_below(n) for n in (1, 2, 3, 7, 8)]
        [1, 2, 2, 4, 8]
    """
    return 1 << (max(num_ranks, 1).bit_length() - 1)


def folded(num_ranks: int, num_chunks: int, inner: Iterable[Transfer]) -> tuple[Transfer, ...]:
    """The transfers of an all-reduce among the first p ranks, with the others folded in.

    Args:
        num_ranks: all ranks.
        num_chunks: of each rank's data.
        inner: the transfers among the first p ranks, in the order of their steps.

    Example:
        >>> [(t.step, t.source, t.target, t.adds) for t in folded(3, 1, [Transfer(0, 0, 1, (0,), True), Transfer(0, 1, 0, (0,), True)])]
        [(0, 2, 0, True), (1, 0, 1, True), (1, 1, 0, True), (2, 0, 2, False)]
    """
    inner, power, everything = list(inner), power_below(num_ranks), tuple(range(num_chunks))
    if power == num_ranks:
        return tuple(inner)
    extra = range(num_ranks - power)
    last = 2 + max((transfer.step for transfer in inner), default=-1)
    before = [Transfer(0, power + rank, rank, everything, True) for rank in extra]
    later = [Transfer(t.step + 1, t.source, t.target, t.chunks, t.adds) for t in inner]
    after = [Transfer(last, rank, power + rank, everything, False) for rank in extra]
    return (*before, *later, *after)


def folding_seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """What the two steps of folding take; 0 for a power of two."""
    return 0.0 if power_below(num_ranks) == num_ranks else 2 * (latency_s + size_bytes / bandwidth_bytes_per_s)
