"""The exercises of lesson 04, many workers, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import simdist as sd
from classroom.answers import a_function, a_whole_number
from classroom.calls import called_in_main
from classroom.exercise import Exercise, NotAnswered
from classroom.sharding import rows_read, sharding_problem
from classroom.values import described
from simdist import keras

__all__ = ["WHY_DAMAGED", "WHY_DEATH", "WHY_KILOBYTES", "WHY_RESTARTED", "first_exercise", "second_exercise", "third_exercise"]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_KILOBYTES = r"""
$2\,\frac{n-1}{n}\,S = \frac{4}{3}\cdot 19{,}240$ = 25,653 bytes, the same for each worker. (`worker:0` has a little more, because it also
broadcast the variables in the beginning.)

AUTO chooses recursive doubling, because 19 kB is a *short* message here: with 10-gigabit Ethernet $\alpha B$ is 62.5 kB. Three is not a
power of two. So one worker first gives its gradient to `worker:0`, and gets the sum from it in the end: `worker:0` sends twice as much,
and all are done sooner.
"""

WHY_DAMAGED = """
On all of them. The gradient of the worker that reads the image is NaN. NaN plus anything is NaN, so in the same step the all-reduce
gives NaN to all three, and their weights stay NaN. Nothing in the result says where it came from.
"""

WHY_DEATH = """
None. The others are in their 8th step when they notice. It is given up, and leaves no trace in their weights.

In lesson 01 a dead worker was a nuisance: its closure went to another worker. Here every worker is needed in every step, for its
rows and for the sums that travel through it. So the more machines take part, the more often *all* of them stop. If one machine fails
once in 1,000 hours, a job on 500 machines fails every two hours.
"""

WHY_RESTARTED = """
All three. Only one died, but the other two cannot finish their step without it. All begin again, as a new group.
"""

# -- the runs -----------------------------------------------------------------------------------------------------------

STEPS = 4
GLOBAL_BATCH = 480
MOST_ROWS = 10_000
LEAST_RATIO, MOST_RATIO = 1.45, 1.55


@cache
def first_row_of_worker_1() -> int:
    """The first row that worker:1 reads in a cluster of a chief and three workers."""

    def first_batch() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        dataset = strategy.distribute_dataset(sd.Dataset.range(2 * GLOBAL_BATCH).batch(GLOBAL_BATCH))
        return strategy.local_results(next(iter(dataset)))[0]

    cluster = sd.Cluster({"chief": 1, "worker": 3}, seed=0)
    runs = {job: cluster.launch(first_batch, job=job) for job in cluster.spec.jobs}
    runs["worker"].join()
    return int(runs["worker"].results["worker:1"][0])


@cache
def rows_per_second(workers: int, rows: int) -> float:
    """How many rows some workers get through in a virtual second, with so many rows for each of them in a step."""
    cluster = sd.Cluster({"worker": workers}, seed=0)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        hidden = keras.layers.Dense(64, activation="relu")
        model = keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(10)])
        model.compile(keras.optimizers.SGD(0.1), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    total = STEPS * workers * rows
    x, y = np.zeros((total, 64), np.float32), np.zeros(total, np.int32)
    model.fit(sd.Dataset.from_tensor_slices((x, y)).batch(workers * rows), epochs=1, verbose=0)
    return total / cluster.now


# -- the checks ---------------------------------------------------------------------------------------------------------

FIRST_ROWS = {
    0: "that is where the chief begins: it trains, too, and is number 0.",
    120: "that is where worker:0 begins: the chief is number 0, and worker:0 is number 1.",
    160: "with three parts of 160 rows; but four tasks train, and worker:1 is not number 1.",
    320: "with three parts of 160 rows; but four tasks train.",
    360: "that is where worker:2 begins.",
    241: "rows are counted from 0.",
}


def begins_with(row: int) -> str | None:
    """The first row of worker:1."""
    expected = first_row_of_worker_1()
    return None if row == expected else f"row {row}: {FIRST_ROWS.get(row, 'no part begins with this row.')}"


def reads_blocks(dataset_fn: Callable[..., Any]) -> str | None:
    """Whether each worker reads a block of four rows in batches of two."""
    strange: list[Any] = []

    def dataset_of(context: Any) -> sd.Dataset:
        dataset = called_in_main(dataset_fn, context)
        if dataset is ...:
            raise NotAnswered
        if isinstance(dataset, sd.Dataset):
            return dataset
        strange.append(dataset)
        return sd.Dataset.range(0)

    reads = rows_read(lambda strategy: strategy.distribute_datasets_from_function(dataset_of))
    if strange:
        return f"the function returns {described(strange[0])}; it must return a Dataset."
    return sharding_problem(reads, num_rows=12, rows_per_batch=2)


def one_and_a_half(rows: int) -> str | None:
    """Rows for each worker with which three workers are 1.5 times as fast as one."""
    ratio = rows_per_second(3, rows) / rows_per_second(1, rows)
    return None if LEAST_RATIO <= ratio <= MOST_RATIO else f"with {rows:,} rows each, three workers are {ratio:.2f} times as fast as one."


first_exercise = Exercise(
    "Give the number of a row, from 0 to 479.",
    a_whole_number(0, GLOBAL_BATCH - 1, begins_with),
    hints=(
        "How many tasks train, and how many rows does each of them get? The chief reads, too.",
        "Four tasks, 120 rows each. The chief is number 0 and worker:0 is number 1. Which number has worker:1?",
    ),
    why="Four tasks train; chief:0 reads rows 0 to 119, worker:0 120 to 239, worker:1 240 to 359.",
)

second_exercise = Exercise(
    "Give a function of an InputContext that returns a Dataset.",
    a_function("of an InputContext that returns a Dataset", reads_blocks),
    hints=(
        "Begin with sd.Dataset.range(12). How many rows does the pipeline with number i leave out before its block?",
        "sd.Dataset.range(12).skip(...).take(4).batch(2), where pipeline i leaves out the first 4 i rows. Its number is "
        "context.input_pipeline_id.",
    ),
    why="Pipeline i leaves out 4 i rows, takes 4, and makes batches of 2.",
)

third_exercise = Exercise(
    "Give a number of rows for each worker.",
    a_whole_number(1, MOST_ROWS, one_and_a_half),
    hints=(
        "More rows make the work longer, and the all-reduce not. Try 500 and 4,000.",
        "With 1,500 rows the ratio is still too small, with 3,000 too large.",
    ),
    why="Then the work takes about as long as the all-reduce, so three workers need twice the time for three times the rows.",
)
