"""Bus bandwidth: how well a collective used the network, comparable between numbers of ranks.

Size over time, the *algorithm bandwidth*, falls with the number of ranks even where every link is busy all the time,
because the data crosses more links. Multiplied by the share of the data that the best algorithm sends and receives at each
rank, it is at most the bandwidth of a port, and reaches it where nothing is lost.

Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md ("Bus bandwidth").

Taught in lesson 03a.
"""

from __future__ import annotations

from simdist.arguments import known_word
from simdist.hardware.figures import check_figure, check_whole

__all__ = ["bus_bandwidth"]

TIMES_ALL_OTHERS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "broadcast": None, "reduce": None}


def bus_bandwidth(kind: str, num_ranks: int, size_bytes: float, seconds: float) -> float:
    """The bandwidth of a port that the best algorithm would have needed for the same time.

    Args:
        kind: of the collective: "all_reduce", "reduce_scatter", "all_gather", "broadcast" or "reduce".
        num_ranks: members.
        size_bytes: of each rank's data; for an all-gather, of the result.
        seconds: what it took.

    Returns:
        Bytes per second: S/t times 2 (n - 1) / n for an all-reduce, times (n - 1) / n for a reduce-scatter or all-gather,
        and S/t itself for a broadcast or reduce.

    Raises:
        TypeError: a figure is no number.
        InvalidArgumentError: another kind, less than one rank, or a time that is not positive.

    Example:
        >>> bus_bandwidth("all_reduce", num_ranks=8, size_bytes=1e9, seconds=0.25)
        7000000000.0
    """
    kind = known_word(kind, "kind", TIMES_ALL_OTHERS)
    num_ranks = check_whole("bus_bandwidth", "num_ranks", num_ranks)
    check_figure("bus_bandwidth", "size_bytes", size_bytes, may_be_zero=True)
    check_figure("bus_bandwidth", "seconds", seconds)
    times = TIMES_ALL_OTHERS[kind]
    share = 1.0 if times is None else times * (num_ranks - 1) / num_ranks
    return size_bytes / seconds * share
