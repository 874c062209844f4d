"""Answers to the exercises of lesson 04."""

from __future__ import annotations

from typing import Any

import numpy as np
from exercise_rows import Rows

import simdist as sd


def block(context: Any) -> sd.Dataset:
    return sd.Dataset.range(12).skip(4 * context.input_pipeline_id).take(4).batch(2)


def block_by_shard(context: Any) -> sd.Dataset:
    return sd.Dataset.range(12).batch(4).shard(context.num_input_pipelines, context.input_pipeline_id).unbatch().batch(2)


def every_third(context: Any) -> sd.Dataset:
    return sd.Dataset.range(12).shard(context.num_input_pipelines, context.input_pipeline_id).batch(2)


def rotated(context: Any) -> sd.Dataset:
    return sd.Dataset.range(12).skip(4 * ((context.input_pipeline_id + 1) % 3)).take(4).batch(2)


ROWS = {
    "first_exercise": Rows(
        right=[240, 240.0, np.int64(240)],
        wrong=[
            (0, "the chief begins"),
            (120, "worker:0 begins"),
            (160, "four tasks train"),
            (320, "four tasks train"),
            (360, "worker:2 begins"),
            (241, "counted from 0"),
            (100, "no part begins"),
            (480, "from 0 to 479"),
            (-240, "from 0 to 479"),
            ("240", "without quotes"),
            (240.5, "is not a whole number"),
        ],
    ),
    "second_exercise": Rows(
        right=[block, block_by_shard],
        wrong=[
            (every_third, "worker:0 reads the rows [0, 3, 6, 9]; it should read [0, 1, 2, 3]"),
            (rotated, "worker:0 reads the rows [4, 5, 6, 7]; it should read [0, 1, 2, 3]"),
            (lambda context: sd.Dataset.range(12).batch(2), "row 0 is read by worker:0 and worker:1 and worker:2, and 11 rows more"),
            (lambda context: block(context).unbatch(), "worker:0 reads batches of 1, 1, 1, 1 rows; they should have 2 each"),
            (lambda context: block(context).unbatch().batch(4), "worker:0 reads batches of 4 rows"),
            (lambda context: block(context).repeat(), "must end"),
            (lambda context: sd.Dataset.range(12).skip(4 * context.input_pipeline_id).batch(2), "row 4 is read by worker:0 and worker:1"),
            (lambda context: sd.Dataset.range(12).skip(99).batch(2), "row 0 is read by no worker"),
            (lambda context: sd.Dataset.range(24).skip(8 * context.input_pipeline_id).take(8).batch(2), "there is no row 12"),
            (lambda context: sd.Dataset.from_tensor_slices(np.ones((12, 2))).batch(2), "not numbers of rows"),
            (lambda context: [[0, 1], [2, 3]], "it must return a Dataset"),
            (lambda: sd.Dataset.range(12), "takes 0 positional arguments but 1 was given"),
            (lambda context: context.pipeline, "your code raised an error in line"),
            (sd.Dataset.range(12), "cannot be called"),
            ([0, 1, 2, 3], "cannot be called"),
        ],
    ),
    "third_exercise": Rows(
        right=[2500, 2400, np.int64(2600)],
        wrong=[
            (64, "three workers are 0.74 times as fast as one"),
            (1, "times as fast as one"),
            (1500, "times as fast as one"),
            (3000, "times as fast as one"),
            (10_000, "times as fast as one"),
            (0, "from 1 to 10,000"),
            (20_000, "from 1 to 10,000"),
            (2500.5, "is not a whole number"),
            ("2500", "without quotes"),
        ],
        slow=True,
    ),
}
