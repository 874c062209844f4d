"""Answers to the exercises of lesson 07."""

from __future__ import annotations

import numpy as np
from exercise_rows import Rows

ROWS = {
    "first_exercise": Rows(
        right=[[1, 2, 3], [3, 1, 2], (1, 2, 3), {1, 2, 3}, range(1, 4), np.array([1, 2, 3]), [1.0, 2, 3]],
        wrong=[
            ([2, 3], "closure 1 is missing. Its worker had sent the reply at 1.50 s"),
            ([0, 1, 2], "closure 0 is in your list, and should not be. The chief had its reply"),
            ([1, 2, 3, 4], "no worker had it"),
            ([1, 2], "closure 3 is missing"),
            ([1, 2, 3, 9], "closure 9 is in your list"),
            ([], "closure 1 is missing"),
            ([12], "there are the closures 0 to 11"),
            ([1.5], "is no list of the numbers of closures"),
            ([float("inf")], "is no list of the numbers of closures"),
            ({"1", "2"}, "is no list of the numbers of closures"),
            (1, "is no list of the numbers of closures"),
        ],
    ),
    "second_exercise": Rows(
        right=[[1, 2], [2, 1], np.flatnonzero(np.array([1, 2, 2, 1]) > 1)],
        wrong=[
            ([1], "closure 2 is missing. Its update had reached ps:0"),
            ([2], "closure 1 is missing. Both of its updates"),
            ([1, 2, 3], "it was still computing"),
            ([0, 1, 2], "not even run twice"),
        ],
    ),
    "third_exercise": Rows(
        right=[
            {"recovery": "replica", "exactly_once": True},
            {"recovery": "replica", "exactly_once": True, "mode": "async"},
        ],
        wrong=[
            ({}, "ends with an UnavailableError"),
            ({"exactly_once": True}, "ends with an UnavailableError"),
            ({"recovery": "checkpoint", "exactly_once": True}, "closures are lost"),
            ({"recovery": "replica"}, "0 closures are lost, and 1 count twice"),
            ({"recovery": "replica", "mode": "sync"}, "nothing is lost, but the run ends at"),
            ({"recovery": "replica", "mode": "bounded", "staleness": 2}, "nothing is lost, but the run ends at"),
            ({"recovery": "copy"}, "the strategy refused it"),
            ({"recovery": "replica", "exactly_once": 1.5}, "the strategy refused it"),
            ({"retries": 3}, "is none of the arguments that you may choose"),
            ("replica", "is no dict of arguments"),
        ],
    ),
}
