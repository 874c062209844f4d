"""Answers to the exercises of lesson 03b."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import jax.numpy as jnp
import numpy as np
from exercise_rows import Rows

from simdist.collectives import ALL_REDUCE, Transfer

RIGHT_ORDERS = [[0, 2, 1, 3], (0, 2, 3, 1), [2, 0, 1, 3], np.array([2, 0, 3, 1])]
WRONG_ORDERS = [list(order) for order in permutations(range(4)) if {order[0], order[1]} != {0, 2}]


def folded(replaces: bool = True) -> list[Transfer]:
    doubling = [Transfer(1 + k, rank, rank ^ (1 << k), (0,), True) for k in range(2) for rank in range(4)]
    before = [Transfer(0, 4, 0, (0,), True), Transfer(0, 5, 1, (0,), True)]
    return [*before, *doubling, Transfer(3, 0, 4, (0,), not replaces), Transfer(3, 1, 5, (0,), not replaces)]


def one(**changed: Any) -> list[Transfer]:
    return [Transfer(**{"step": 0, "source": 4, "target": 0, "chunks": (0,), "adds": True, **changed})]


ROWS = {
    "first_exercise": Rows(
        right=[*RIGHT_ORDERS, jnp.array([0, 2, 1, 3])],
        wrong=[
            *((order, "the sum is") for order in WRONG_ORDERS),
            ([0, 1, 2, 3], "in the order 0, 1, 2, 3 the sum is 1."),
            ([0, 2, 1], "give each of 0, 1, 2 and 3 once"),
            ([0, 2, 1, 1], "give each of 0, 1, 2 and 3 once"),
            ([1, 2, 3, 4], "give each of 0, 1, 2 and 3 once"),
            (["0", "2", "1", "3"], "give each of 0, 1, 2 and 3 once"),
            ([0, 2, float("nan"), 1], "give each of 0, 1, 2 and 3 once"),
            ("0213", "is not a list of ranks"),
            (213, "is not a list of ranks"),
        ],
    ),
    "second_exercise": Rows(
        right=[folded(), tuple(folded())],
        wrong=[
            (folded(replaces=False), "rank 4, chunk 0: has rank 4 2 times, and 1 more"),
            (folded()[:-2], "rank 4, chunk 0: misses rank 0, and 9 more"),
            (folded()[2:-2], "misses rank 4"),
            (list(ALL_REDUCE["ring"].schedule(6).transfers), "chunks must be"),
            (list(ALL_REDUCE["binomial"].schedule(6).transfers), "it takes 6 steps; 4 are enough"),
            ([], "rank 0, chunk 0: misses rank 1, and 29 more"),
            (one(target=6), "ranks go from 0 to 5"),
            (one(step=0.5), "step is the number 0.5: give a whole number"),
            (one(chunks=None), "(0,) with a comma"),
            (one(adds=1), "give True"),
            (None, "is not a list of transfers"),
        ],
    ),
    "third_exercise": Rows(
        right=[7.9, 5.91 / 0.75, np.float64(8)],
        wrong=[
            (1, "the ring takes 1.89 ms, and hierarchical copy 7.05 ms"),
            (5, "the ring takes 8.89 ms"),
            (7, "the ring takes 12.39 ms, and hierarchical copy 13.05 ms"),
            (9, "the ring takes 15.89 ms"),
            (10, "the ring takes 17.64 ms, and hierarchical copy 16.05 ms"),
            (0.1, "at least 1 and at most 1,000"),
            ("8", "without quotes"),
        ],
        slow=True,
    ),
    "fourth_exercise": Rows(
        right=[0.00625, 0.1 / 16, np.float64(0.00630)],
        wrong=[
            (0.01, "with the fraction 0.01 a worker sends 1.2 MB, and 7.5 MB without a compressor"),
            (0.00615, "a worker sends 0.738 MB"),
            (0.1, "a worker sends 12 MB"),
            (0, "0 is no fraction"),
            (1.5, "1.5 is no fraction"),
            (-0.00625, "is no fraction"),
            ("0.00625", "without quotes"),
        ],
    ),
}
