"""Answers to the exercises of lesson 02."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from exercise_rows import Rows

import simdist as sd
from simdist import keras

alias = sd.compute_average_loss


def number_of_examples(losses: Any) -> Any:
    return sd.get_replica_context().all_reduce(sd.ReduceOp.SUM, keras.ops.sum(keras.ops.ones_like(losses)))


def own_average(losses: Any) -> Any:
    return keras.ops.sum(losses) / number_of_examples(losses)


ROWS = {
    "first_exercise": Rows(
        right=[4096, 4096.0, np.int64(4096)],
        wrong=[
            (2048, "still takes 86 microseconds more"),
            (16, "microseconds more than on 8"),
            (8192, "but also with 4,096"),
            (16_384, "but also with 8,192"),
            (4095, "is not a power of two"),
            (8, "from 16 to 16,384"),
            (32_768, "from 16 to 16,384"),
            ("4096", "without quotes"),
            (4096.5, "is not a whole number"),
        ],
        slow=True,
    ),
    "second_exercise": Rows(
        right=[own_average, lambda losses: keras.ops.sum(losses / number_of_examples(losses))],
        wrong=[
            (keras.ops.mean, "a batch of 5 examples on 2 replicas the gradient is 0.500, not 0.200"),
            (lambda losses: keras.ops.mean(losses) / 2, "on 1 replica the gradient is 0.100"),
            (lambda losses: keras.ops.sum(losses) / 5, "a batch of 7 examples on 1 replica the gradient is 1.200"),
            (lambda losses: keras.ops.mean(losses) / sd.get_replica_context().num_replicas_in_sync, "on 2 replicas the gradient is 0.250"),
            (keras.ops.sum, "on 1 replica the gradient is 1.000"),
            (sd.compute_average_loss, "is not allowed"),
            (lambda losses: sd.compute_average_loss(losses), "is not allowed"),
            (lambda losses: alias(losses), "is not allowed"),
            (partial(sd.compute_average_loss, sample_weight=None), "is not allowed"),
            (lambda losses: keras.ops.sum(losses) * float("nan"), "the gradient is nan"),
            (0.2, "cannot be called"),
        ],
        slow=True,
    ),
    "third_exercise": Rows(
        right=[3.3, np.float64(3.25), 3.2],
        wrong=[
            (1, "takes 1.00 times as long"),
            (2, "takes 1.44 times as long"),
            (3, "takes 1.87 times as long"),
            (4, "takes 2.31 times as long"),
            (100, "times as long, not 2"),
            (0.5, "at least 1 and at most 100"),
            ("3.3", "without quotes"),
        ],
        slow=True,
    ),
}
