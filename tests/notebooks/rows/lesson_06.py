"""Answers to the exercises of lesson 06."""

from __future__ import annotations

import numpy as np
from exercise_rows import Rows

import simdist as sd

MEGABYTE = sd.MaxSizePartitioner(1 << 20)

ROWS = {
    "first_exercise": Rows(
        right=[24, 24.0, np.int64(24)],
        wrong=[
            (6, "so it is with 7"),
            (23, "so it is with 24"),
            (25, "1.04 times as long"),
            (48, "2.00 times as long"),
            (0, "from 1 to 10,000"),
            ("24", "without quotes"),
        ],
    ),
    "second_exercise": Rows(
        right=[
            {"servers": np.ceil(6.2), "partitioner": MEGABYTE, "placement": "bytes"},
            {"servers": 7, "partitioner": MEGABYTE, "placement": "bytes"},
            {"servers": np.int64(7), "partitioner": MEGABYTE, "placement": "bytes"},
            {"servers": 7, "partitioner": sd.MinSizePartitioner(700 << 10, max_shards=7)},
        ],
        wrong=[
            ({"servers": 7, "partitioner": MEGABYTE}, "a round takes 97.6 ms, with 37 shards"),
            ({"servers": 6, "partitioner": MEGABYTE, "placement": "bytes"}, "a round takes 97.6 ms"),
            ({"servers": 7, "partitioner": sd.FixedShardsPartitioner(7)}, "there are 147 shards"),
            ({"servers": 8, "partitioner": MEGABYTE, "placement": "bytes"}, "fewer servers are enough"),
            ({"servers": 7}, "with 21 shards"),
            ({"servers": 7, "partitioner": sd.MinSizePartitioner(max_shards=7)}, "there are 51 shards"),
            ({"servers": 0, "partitioner": MEGABYTE}, "from 1 to 32"),
            ({"servers": 7, "placement": "best"}, "the design was refused"),
            ({"servers": 7, "placement": ["bytes"]}, "placement=['bytes'] is not known"),
            ({"servers": 7, "partitioner": sd.MaxSizePartitioner(1), "placement": "bytes"}, "the sizes of a partitioner are bytes"),
            ({"servers": 7, "partitioner": sd.MaxSizePartitioner}, "the design was refused: variable_partitioner is"),
            ({"servers": 7, "mode": "sync"}, "is none of the keys"),
            ({"partitioner": MEGABYTE}, "'servers': None is not a whole number: give one from 1 to 32"),
            ({"servers": 6.5, "partitioner": MEGABYTE}, "'servers': the number 6.5 is not a whole number"),
            (7, "is no dict"),
        ],
        slow=True,
    ),
    "third_exercise": Rows(
        right=[50_000, 50_000.0, np.int64(50_000)],
        wrong=[
            (0, "Another server sent more"),
            (60_000, "Another server sent more"),
            (70_000, "lies on ps:0"),
            (55_200, "which begins with row 50,000"),
            (80_000, "from 0 to 79,999"),
            ("ps:6", "without quotes"),
        ],
    ),
}
