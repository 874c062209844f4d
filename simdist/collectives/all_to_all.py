"""All-to-all: each rank has a part for each other rank.

The data of a schedule is everything that is sent, n x n chunks: chunk ``s * n + t`` goes from rank s to rank t. In the
beginning rank s has its row, in the end rank t has its column too; the bytes of a closed form are those of the whole table,
n times what one rank has.

n - 1 rounds: in round k each rank sends to the one k places after it, so that each port has one message in and one out.

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005
(pairwise all-to-all).

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer

__all__ = ["PAIRWISE_ALL_TO_ALL"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a pairwise all-to-all among `num_ranks` ranks.

    Example:
        >>> [(t.step, t.target, t.chunks) for t in schedule(3).transfers if t.source == 1]
        [(0, 2, (5,)), (1, 0, (3,))]
    """
    n = num_ranks
    pairs = [(step, rank, (rank + step + 1) % n) for step in range(n - 1) for rank in range(n)]
    return Schedule("all_to_all", "pairwise", n, n * n, tuple(Transfer(step, s, t, (s * n + t,), False) for step, s, t in pairs))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """n - 1 latencies, and (n - 1) / n of a rank's row."""
    return (num_ranks - 1) * (latency_s + size_bytes / num_ranks**2 / bandwidth_bytes_per_s)


PAIRWISE_ALL_TO_ALL = Algorithm("all_to_all", "pairwise", schedule, seconds)
