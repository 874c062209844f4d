"""Broadcast: every rank gets the data of rank 0.

A binomial tree: every rank that has the data sends it on, so that the number of these ranks doubles in each step. Rank 0
sends to the rank in the middle first, and to its neighbour last.

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule
from simdist.collectives.binomial import num_levels, taking

__all__ = ["BINOMIAL_BROADCAST"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a broadcast from rank 0 to `num_ranks` - 1 others.

    Example:
        >>> [(t.step, t.source, t.target) for t in schedule(4).transfers]
        [(0, 0, 2), (1, 2, 3), (1, 0, 1)]
    """
    return Schedule("broadcast", "binomial", num_ranks, 1, tuple(taking(num_ranks)))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """log2 n steps with all the data, rounded up."""
    return num_levels(num_ranks) * (latency_s + size_bytes / bandwidth_bytes_per_s)


BINOMIAL_BROADCAST = Algorithm("broadcast", "binomial", schedule, seconds)
