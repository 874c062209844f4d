"""Answers to the exercises of lesson 08."""

from __future__ import annotations

from typing import Any

from exercise_rows import Rows

import simdist as sd

RANGE = sd.Dataset.range(24)


def sharded(context: Any) -> sd.Dataset:
    return RANGE.shard(context.num_input_pipelines, context.input_pipeline_id)


def shard_after_shuffle(context: Any) -> sd.Dataset:
    mixed = RANGE.shuffle(24, seed=context.input_pipeline_id)
    return mixed.shard(context.num_input_pipelines, context.input_pipeline_id).batch(3).repeat()


def only_first_shuffles(context: Any) -> sd.Dataset:
    mine = sharded(context)
    return (mine if context.input_pipeline_id else mine.shuffle(8, seed=1)).batch(3).repeat()


def two_orders(context: Any) -> sd.Dataset:
    one, other = (sharded(context).shuffle(8, seed, False).batch(3) for seed in (1, 2))
    return one.concatenate(other).repeat()


def total_ms(steps: int, load: float, step: float, prefetch: int) -> float:
    if prefetch == 0:
        return steps * (load + step)
    return load + (steps - 1) * max(load, step) + step


ROWS = {
    "first_exercise": Rows(
        right=[
            lambda context: sharded(context).shuffle(8, seed=1).batch(3).repeat(),
            lambda context: RANGE.shuffle(24, seed=3).shard(3, context.input_pipeline_id).batch(3).repeat(),
            lambda context: sharded(context).shuffle(8).batch(3).repeat().prefetch(2),
        ],
        wrong=[
            (lambda context: RANGE.shuffle(24, seed=1).batch(3).repeat(), "reads more than 8 rows"),
            (lambda context: sharded(context).shuffle(8, seed=1).repeat().batch(3), "the end of one epoch and the beginning of the next"),
            (
                lambda context: sharded(context).shuffle(8, seed=0).batch(3, drop_remainder=True).repeat(),
                "in each epoch 2 of its 8 rows are dropped, because their batch is not full",
            ),
            (
                lambda context: sharded(context).batch(3, drop_remainder=True).repeat(),
                "pipeline 0 begins again after [0, 3, 6] and [9, 12, 15]",
            ),
            (lambda context: sharded(context).repeat().shuffle(8, seed=1).batch(3), "reads a row again before it has read all 8"),
            (lambda _: RANGE.filter(lambda row: row % 3 == 3).batch(3).repeat(), "pipeline 0 has no rows at all; it should have 8"),
            (lambda context: sharded(context).shuffle(8, seed=1).batch(3), "ends after 3 batches: call repeat(), without a number"),
            (lambda context: sharded(context).shuffle(8, seed=1).batch(3).repeat(2), "ends after 6 batches: call repeat(), without"),
            (lambda context: sharded(context).shuffle(8, seed=1).batch(3).repeat(9), "ends after 27 batches: call repeat(), without"),
            (
                lambda context: sharded(context).shuffle(8, seed=1).batch(3).filter(lambda rows: rows.sum() >= 0).repeat(99),
                "ends after 297 batches",
            ),
            (lambda context: sharded(context).batch(3).repeat(), "pipeline 0 has the same order in two epochs"),
            (lambda context: sharded(context).shuffle(8, 1, False).batch(3).repeat(), "pipeline 0 has the same order in two epochs"),
            (only_first_shuffles, "pipeline 1 has the same order in two epochs"),
            (two_orders, "pipeline 0 has the same order in two epochs"),
            (lambda context: sharded(context).shuffle(8, seed=1).repeat(), "which is no batch of rows"),
            (lambda context: sharded(context).shuffle(8, seed=1).batch(4).repeat(), "have 4, 4, 4, 4, 4, 4 rows"),
            (shard_after_shuffle, "times, and"),
            (
                lambda context: RANGE.shuffle(24).shard(3, context.input_pipeline_id).batch(3).repeat(),
                "A shuffle before the shard needs a seed that all pipelines have in common",
            ),
            (lambda context: sharded(context).map(lambda row: row - 50).shuffle(8).batch(3).repeat(), "there are the rows 0 to 23"),
            (
                lambda context: sharded(context).map(lambda row: row + 10**9).shuffle(8).batch(3).repeat(),
                "a pipeline reads row 1,000,000,0",
            ),
            (lambda context: [1, 2, 3], "return a dataset"),
            (sd.Dataset.range(24), "cannot be called"),
        ],
    ),
    "second_exercise": Rows(
        right=[total_ms, lambda n, a, b, p: n * (a + b) - (n - 1) * min(a, b) * (p > 0)],
        wrong=[
            (lambda steps, load, step, prefetch: steps * (load + step), "total_ms(20, 5.0, 3.0, 1) returned 160.0; that job takes 103 ms"),
            (lambda steps, load, step, prefetch: steps * max(load, step), "total_ms(20, 5.0, 3.0, 0) returned 100.0"),
            (lambda steps, load, step, prefetch: "160", "return a number of milliseconds"),
            (lambda steps, load, step, prefetch: float("nan"), "NaN"),
            (103, "cannot be called"),
        ],
    ),
    "third_exercise": Rows(
        right=[("worker:2", 7.5), ["worker:2", 7.4999999], (" Worker:2", 7.5)],
        wrong=[
            (("worker:1", 6.0), "But does it wait for its input?"),
            (("worker:0", 2.0), "is not the one"),
            (("worker:2", 1.5), "that is what it waits in a step"),
            (("worker:2", 90.0), "that is too much"),
            (("worker:2", 3.5), "3.5 ms: that is too little"),
            (("worker:2", 0.0075), "that is the number of seconds. Give milliseconds"),
            (("worker:2", float("nan")), "NaN (not a number) is no number of milliseconds"),
            ("worker:2", "is no pair of a worker and a number"),
            (("worker:2", "7.5 ms"), "is no pair of a worker and a number"),
        ],
    ),
}
