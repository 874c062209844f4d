"""Recursive doubling: in step k each rank swaps all its data with the one whose number differs in bit k.

After log2 n steps every rank has added all data: the fewest steps that are possible. But each step carries all the data,
log2 n times in total: right for short messages, wrong for long ones. Where n is no power of two, the ranks left over are
folded in (`folding.py`).

Two partners add the same two numbers, one as a + b and the other as b + a, which gives the same bits.

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer
from simdist.collectives.folding import folded, folding_seconds, power_below

__all__ = ["RECURSIVE_DOUBLING"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a recursive-doubling all-reduce among `num_ranks` ranks.

    Example:
        >>> [(t.step, t.source, t.target) for t in schedule(4).transfers if t.source == 0]
        [(0, 0, 1), (1, 0, 2)]
    """
    power = power_below(num_ranks)
    swaps = [Transfer(step, rank, rank ^ (1 << step), (0,), True) for step in range(power.bit_length() - 1) for rank in range(power)]
    return Schedule("all_reduce", "recursive doubling", num_ranks, 1, folded(num_ranks, 1, swaps))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """log2 n steps with all the data, and two more where n is no power of two."""
    steps = power_below(num_ranks).bit_length() - 1
    once = latency_s + size_bytes / bandwidth_bytes_per_s
    return steps * once + folding_seconds(num_ranks, size_bytes, latency_s, bandwidth_bytes_per_s)


RECURSIVE_DOUBLING = Algorithm("all_reduce", "recursive doubling", schedule, seconds)
