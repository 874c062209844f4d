"""Answers to the exercises of lesson 03a."""

from __future__ import annotations

from typing import Any

import numpy as np
from exercise_rows import Rows

from simdist.collectives import ALL_REDUCE, Schedule, Transfer

DOUBLING = [Transfer(step, rank, rank ^ (1 << step), (0,), True) for step in range(2) for rank in range(4)]
BITS_REVERSED = [Transfer(step, rank, rank ^ (2 >> step), (0,), True) for step in range(2) for rank in range(4)]
OF_NUMPY = [Transfer(np.int64(t.step), np.int32(t.source), np.int64(t.target), [np.int64(0)], np.bool_(True)) for t in DOUBLING]  # type: ignore[arg-type]


def one(step: Any = 0, source: Any = 0, target: Any = 1, chunks: Any = (0,), adds: Any = True) -> list[Transfer]:
    return [Transfer(step, source, target, chunks, adds)]


ROWS = {
    "first_exercise": Rows(
        right=[175e6, 175_000_000, 2 * 7 * 100e6 / 8, np.float64(174.9e6)],
        wrong=[
            (100e6, "the sum must also come back"),
            (200e6, "what it keeps"),
            (87.5e6, "reduce-scatter"),
            (12.5e6, "one chunk"),
            (1.4e9, "all eight ranks"),
            (175, "Give bytes"),
            (150e6, "too few"),
            (180e6, "too many"),
            (0, "too few"),
            (-175e6, "at least 0"),
            ("175 MB", "without quotes"),
        ],
    ),
    "second_exercise": Rows(
        right=[4 / (3.5 - 10 / 6) * 100_000, 218_000, np.float32(215_000)],
        wrong=[
            (100_000, "the ring takes 116.7 microseconds, and Rabenseifner 95.0"),
            (400_000, "the ring takes 166.7"),
            (880_000, "Rabenseifner"),
            (218, "the ring takes 100.0"),
            (0, "for 0 bytes"),
            (-1, "at least 0"),
            ("218 kB", "without quotes"),
        ],
    ),
    "third_exercise": Rows(
        right=[DOUBLING, tuple(DOUBLING), BITS_REVERSED, OF_NUMPY],
        wrong=[
            (DOUBLING[:-1], "rank 1, chunk 0: misses rank 2, and 1 more"),
            ([*DOUBLING, Transfer(2, 0, 1, (0,), True)], "rank 1, chunk 0: has rank 0 2 times, and 3 more"),
            ([], "rank 0, chunk 0: misses rank 1, and 11 more"),
            (list(ALL_REDUCE["binomial"].schedule(4).transfers), "4 steps; 2 are enough"),
            (DOUBLING[::-1], "in the order of their steps"),
            ([Transfer(t.step, t.source, t.target, t.chunks, False) for t in DOUBLING], "misses"),
            (one(target=4), "ranks go from 0 to 3"),
            (one(target=0), "does not send to itself"),
            (one(chunks=(1,)), "chunks must be"),
            (one(step="0"), "step is the text '0': give a whole number"),
            (one(step=10**9), "give a whole number, from 0 on"),
            (one(step=-1), "give a whole number, from 0 on"),
            (one(source=None), "source is None"),
            (one(chunks=0), "(0,) with a comma"),
            (one(chunks=("0",)), "(0,) with a comma"),
            (one(adds="yes"), "adds is the text 'yes'"),
            ([(0, 0, 1, (0,), True)], "element 0 of the list"),
            (DOUBLING * 1000, "far fewer"),
            (Schedule("all_reduce", "yours", 4, 1, tuple(DOUBLING)), "is not a list of transfers"),
            (7, "is not a list of transfers"),
        ],
    ),
}
