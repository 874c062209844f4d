"""Binomial trees: the number of ranks that have (or have given) the data doubles in each step.

To reduce, every second rank gives its sum to its neighbour and is done; then every second one of the rest, until rank 0 has
everything. A broadcast is the same backwards. An all-reduce that does one after the other is the simplest that is not slow,
but half of the ranks idle most of the time, and each step carries all the data.

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer

__all__ = ["BINOMIAL", "BINOMIAL_REDUCE", "giving", "num_levels", "taking"]


def num_levels(num_ranks: int) -> int:
    """Steps from one rank to all: log2 n, rounded up.

    Example:
        >>> [num_levels(n) for n in (1, 2, 3, 4, 5)]
        [0, 1, 2, 2, 3]
    """
    return max(num_ranks - 1, 0).bit_length()


def giving(num_ranks: int) -> list[Transfer]:
    """The transfers that bring the sum to rank 0: distance 1 first, then 2, 4, ..."""
    return [
        Transfer(step, rank, rank - (1 << step), (0,), True)
        for step in range(num_levels(num_ranks))
        for rank in range(1 << step, num_ranks, 2 << step)
    ]


def taking(num_ranks: int, first_step: int = 0) -> list[Transfer]:
    """The transfers that bring rank 0's data to all: the largest distance first, ..., then 1."""
    last = first_step + num_levels(num_ranks) - 1
    return [Transfer(last - t.step, t.target, t.source, (0,), False) for t in reversed(giving(num_ranks))]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a reduction to rank 0 and a broadcast from it.

    Example:
        >>> [(t.step, t.source, t.target) for t in schedule(3).transfers]
        [(0, 1, 0), (1, 2, 0), (2, 0, 2), (3, 0, 1)]
    """
    transfers = giving(num_ranks) + taking(num_ranks, num_levels(num_ranks))
    return Schedule("all_reduce", "binomial", num_ranks, 1, tuple(transfers))


@cache
def reduce_schedule(num_ranks: int) -> Schedule:
    """The transfers of a reduction to rank 0; what the other ranks have in the end is a part of the sum."""
    return Schedule("reduce", "binomial", num_ranks, 1, tuple(giving(num_ranks)))


def reduce_seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """log2 n steps with all the data, rounded up."""
    return num_levels(num_ranks) * (latency_s + size_bytes / bandwidth_bytes_per_s)


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """2 log2 n steps with all the data, rounded up."""
    return 2 * reduce_seconds(num_ranks, size_bytes, latency_s, bandwidth_bytes_per_s)


BINOMIAL = Algorithm("all_reduce", "binomial", schedule, seconds)
BINOMIAL_REDUCE = Algorithm("reduce", "binomial", reduce_schedule, reduce_seconds)
