"""Rabenseifner's all-reduce: halve the data in each step until each rank has one part of the sum, then double it again.

Partners first lie far apart: each sends the half that the other one is to be responsible for, and adds what it gets to the
half that it keeps. After log2 n steps rank r holds the whole sum of chunk r. Then the same partners send in the reverse
order and swap what they have. So little data as in the ring, and 2 log2 n steps instead of 2 (n - 1). Where n is no power of
two, the ranks left over are folded in (`folding.py`).

Source: Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004; Thakur, Rabenseifner and Gropp,
Optimization of Collective Communication Operations in MPICH, 2005.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer
from simdist.collectives.folding import folded, folding_seconds, power_below

__all__ = ["RABENSEIFNER"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of Rabenseifner's all-reduce among `num_ranks` ranks.

    Example:
        >>> [(t.step, t.target, t.chunks, t.adds) for t in schedule(4).transfers if t.source == 0]
        [(0, 2, (2, 3), True), (1, 1, (1,), True), (2, 1, (0,), False), (3, 2, (0, 1), False)]
    """
    power = power_below(num_ranks)
    depth = power.bit_length() - 1
    halving, doubling = [], []
    for level in range(depth):  # the distance of partners, from 1 upwards
        distance = 1 << level
        for rank in range(power):
            partner = rank ^ distance
            halving.append(Transfer(depth - 1 - level, rank, partner, _block(partner, distance), True))
            doubling.append(Transfer(depth + level, rank, partner, _block(rank, distance), False))
    halving.sort(key=lambda transfer: transfer.step)
    return Schedule("all_reduce", "rabenseifner", num_ranks, power, folded(num_ranks, power, halving + doubling))


def _block(rank: int, length: int) -> tuple[int, ...]:
    """The aligned block of so many chunks that holds chunk `rank`."""
    start = rank - rank % length
    return tuple(range(start, start + length))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """2 log2 p latencies and 2 (p - 1) / p of the data, with p the power of two; two more steps where n is none."""
    power = power_below(num_ranks)
    steps = 2 * (power.bit_length() - 1)
    swapped_s = steps * latency_s + 2 * (power - 1) / power * size_bytes / bandwidth_bytes_per_s
    return swapped_s + folding_seconds(num_ranks, size_bytes, latency_s, bandwidth_bytes_per_s)


RABENSEIFNER = Algorithm("all_reduce", "rabenseifner", schedule, seconds)
