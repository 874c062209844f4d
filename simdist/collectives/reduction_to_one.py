"""Reduction to one: every rank sends to rank 0, which adds in the order of ranks and sends the sum back.

What a parameter server does, and what is right when the values lie on devices of different kinds. The order of additions is
that of a plain loop over the ranks. All data crosses the one port twice, so the time grows with n; the ring's does not.

Ranks send one after the other, as rank 0 takes them; the sum leaves to all at once and shares rank 0's port.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer

__all__ = ["REDUCTION_TO_ONE"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a reduction to rank 0 and back.

    Example:
        >>> [(t.step, t.source, t.target) for t in schedule(3).transfers]
        [(0, 1, 0), (1, 2, 0), (2, 0, 1), (2, 0, 2)]
    """
    there = [Transfer(rank - 1, rank, 0, (0,), True) for rank in range(1, num_ranks)]
    back = [Transfer(num_ranks - 1, 0, rank, (0,), False) for rank in range(1, num_ranks)]
    return Schedule("all_reduce", "reduction to one", num_ranks, 1, tuple(there + back))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """n latencies, and all data of the other ranks through one port, there and back."""
    if num_ranks == 1:
        return 0.0
    return num_ranks * latency_s + 2 * (num_ranks - 1) * size_bytes / bandwidth_bytes_per_s


REDUCTION_TO_ONE = Algorithm("all_reduce", "reduction to one", schedule, seconds)
