"""The exercises of lesson 08, input pipelines, with the run that one of them looks at, and what its predictions explain."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

import simdist as sd
from classroom.answers import a_function
from classroom.calls import called_in_main
from classroom.exercise import Exercise, NotAnswered
from classroom.reading import ROWS, timed_job, times_read, with_time
from classroom.values import described, plain
from simdist.data.nodes import INFINITE

__all__ = [
    "WHY_MAKING",
    "WHY_OFF",
    "WHY_ORDER",
    "WHY_PREFETCH",
    "WHY_UNREAD",
    "first_exercise",
    "second_exercise",
    "slow_run",
    "third_exercise",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_OFF = """
Six. Each worker reads all 24 rows, and takes its half of a global batch, four rows, in a step: 24 / 4 = 6. With OFF the strategy trusts you
to give each worker other rows. If all have the same, both compute the same gradient, and their mean is that gradient: the second worker
does nothing useful. The losses look right.
"""

WHY_UNREAD = """
Four rows, all of them of `worker:2`. The coordinator gives the next closure to a worker that is free, and a closure takes the next rows of
*its worker*. The slow worker gets two closures of twelve, and reads 4 of its 8 rows. The others take five each, which is ten rows of
eight: they begin their shards again. Nothing says that an epoch was not an epoch.
"""

WHY_ORDER = """
A row is in no shard if it stands at an odd position in the order of `worker:0` and at an even one in that of `worker:1`: each is true for
about half of the rows, both for about a quarter, so about 6 of 24 are to be expected. Here there are 5, and as many are read twice. A
validation set that is split off like this would leak into the training set.
"""

WHY_PREFETCH = """
Without a buffer, loading and computing take turns: 5 + 3 = 8 ms. With a buffer of one the pipeline works on the next element while the step
computes, and the slower of the two decides: max(5, 3) = 5 ms. A second element in the buffer changes nothing: the loader is never ahead, so
there is never a second one.
"""

WHY_MAKING = """
With DATA each worker makes **whole** global batches and throws three quarters away: 16 ms for a step, on four workers just as on one. With
FILE a worker makes global batches of its own files. One takes 16 ms too, but lasts for four steps: 4 ms. With a function each worker makes
four rows a step: 4 ms. The step itself takes 3 ms, so even then the job waits for its input, for a quarter of the time.
"""

# -- the run of the third exercise ---------------------------------------------------------------------------------------

SLOW_INPUT, SLOW_INPUT_MS = "worker:2", 7.5
NEAR_MS = 0.01
LATER_WAIT_MS = 1.5  # all wait for worker:1, which computes for 6 ms; meanwhile the pipeline works


def slow_run() -> sd.Cluster:
    """Four workers, each with a pipeline of its own; one has a slow pipeline, and another one a slow processor."""

    def rows_of(context: sd.InputContext) -> sd.Dataset:
        mine = sd.Dataset.range(1000).shard(context.num_input_pipelines, context.input_pipeline_id).batch(4)
        return with_time(mine, SLOW_INPUT_MS if SLOW_INPUT.endswith(str(context.input_pipeline_id)) else 2.0)

    return timed_job(rows_of, steps=12, step_ms=4.0, workers=4, slow={"worker:1": 1.5})


# -- the checks ---------------------------------------------------------------------------------------------------------

PIPELINES = 3
BATCHES = [3, 3, 2]  # rows of the batches in which a pipeline reads its 8 rows
EPOCHS = 4  # of which the orders are compared
ENDLESS = 1000 * len(BATCHES)  # batches after which a dataset that does not know its length counts as one without end


def epochs_of(function: Callable[..., Any], pipeline: int) -> list[list[list[int]]] | str:
    """The batches of the first epochs of a pipeline, or what is wrong with them."""
    dataset = called_in_main(function, sd.InputContext(PIPELINES, pipeline, PIPELINES))
    if dataset is ...:
        raise NotAnswered
    if not isinstance(dataset, sd.Dataset):
        return f"the function returned {described(dataset)}: return a dataset."
    batches = [np.asarray(batch).tolist() for batch in islice(dataset, EPOCHS * len(BATCHES))]
    if not batches:
        return f"pipeline {pipeline} has no rows at all; it should have {ROWS // PIPELINES}."
    if not all(isinstance(batch, list) and all(type(row) is int for row in batch) for batch in batches):
        return f"pipeline {pipeline} gives {described(batches[0])}, which is no batch of rows: call batch(3)."
    sizes = [len(batch) for batch in batches]
    if set(sizes) == {3} and len(batches) == EPOCHS * len(BATCHES):
        return whole_batches(batches, pipeline)
    if sizes != (EPOCHS * BATCHES)[: len(sizes)]:
        shown = ", ".join(map(str, sizes[: 2 * len(BATCHES)]))
        return f"the batches of pipeline {pipeline} have {shown} rows; those of two epochs should have 3, 3, 2, 3, 3, 2."
    length = length_of(dataset)
    if length is not None:
        return f"pipeline {pipeline} ends after {length} batches: call repeat(), without a number."
    return [batches[start : start + len(BATCHES)] for start in range(0, len(batches), len(BATCHES))]


def length_of(dataset: sd.Dataset) -> int | None:
    """After how many batches a dataset ends; None if it does not.

    Example:
        >>> length_of(sd.Dataset.range(3).repeat(7)), length_of(sd.Dataset.range(3).repeat())
        (21, None)
    """
    known = dataset.cardinality()
    if known == INFINITE:
        return None
    length = known if known >= 0 else sum(1 for _ in islice(dataset, ENDLESS))
    return None if known < 0 and length == ENDLESS else length


def whole_batches(batches: list[list[int]], pipeline: int) -> str:
    """What is wrong where all batches are full."""
    rows = [row for batch in batches for row in batch]
    owned, read = ROWS // PIPELINES, 6  # rows of a pipeline, and those in its full batches
    if len(set(rows)) > owned:
        return f"pipeline {pipeline} reads more than {owned} rows: {rows[:9]} and so on. Where is its shard?"
    if not repeats_within(rows, owned):
        return f"the third batch of pipeline {pipeline} is {batches[2]}: the end of one epoch and the beginning of the next in one batch."
    if not repeats_within(rows, read):
        begin = f"pipeline {pipeline} begins again after {batches[0]} and {batches[1]}"
        return f"{begin}: in each epoch {owned - read} of its {owned} rows are dropped, because their batch is not full."
    return f"pipeline {pipeline} reads a row again before it has read all {owned}: {rows[:9]} and so on. What comes after its repeat?"


def repeats_within(rows: list[int], length: int) -> bool:
    """Whether some row comes twice within one epoch, if epochs have this length.

    Example:
        >>> repeats_within([0, 1, 2, 2, 0, 1], 3), repeats_within([0, 1, 0, 1, 0, 1], 3)
        (False, True)
    """
    epochs = [rows[start : start + length] for start in range(0, len(rows), length)]
    return any(len(set(epoch)) < len(epoch) for epoch in epochs)


def reads_each_row_once(function: Callable[..., Any]) -> str | None:
    """A function that gives each pipeline rows of its own, in an order that changes, in batches of one epoch each."""

    def main() -> list[list[list[int]]] | str:
        return epochs_of(function, sd.TFConfigClusterResolver().task_id or 0)

    # On a task for each pipeline, as in a job: what is not seeded is another order on each of them.
    run = sd.Cluster({"worker": PIPELINES}, seed=0).launch(main)
    run.join()
    found = [run.results[f"worker:{pipeline}"] for pipeline in range(PIPELINES)]
    for epochs in found:
        if isinstance(epochs, str):
            return epochs
        strange = [row for batches in epochs for batch in batches for row in batch if not 0 <= row < ROWS]
        if strange:
            return f"a pipeline reads row {strange[0]:,}; there are the rows 0 to {ROWS - 1}, the elements of sd.Dataset.range({ROWS})."
    for epoch in range(EPOCHS):
        counts = times_read([[batch for epochs in found for batch in epochs[epoch]]])
        wrong = [row for row, count in enumerate(counts) if count != 1]
        if wrong:
            return (
                f"in epoch {epoch}, row {wrong[0]} is read {counts[wrong[0]]} times, and {len(wrong) - 1} other rows are wrong, too. "
                "A shuffle before the shard needs a seed that all pipelines have in common: without one, each task has another order."
            )
    for pipeline, epochs in enumerate(found):
        orders = {tuple(row for batch in epoch for row in batch) for epoch in epochs}
        if len(orders) < EPOCHS:
            return (
                f"pipeline {pipeline} has the same order in two epochs: shuffle, with a seed, and let each epoch have an order of its own."
            )
    return None


JOBS = [(20, 5.0, 3.0, 0), (20, 5.0, 3.0, 1), (20, 2.0, 3.0, 1), (20, 2.0, 3.0, 4), (1, 4.0, 7.0, 1), (100, 6.0, 6.0, 2)]


def total_of(steps: int, load: float, step: float, prefetch: int) -> float:
    """Milliseconds of a whole job, in closed form.

    Example:
        >>> total_of(20, 5.0, 3.0, 0), total_of(20, 5.0, 3.0, 1)
        (160.0, 103.0)
    """
    return steps * (load + step) if not prefetch else load + (steps - 1) * max(load, step) + step


def gives_total(function: Callable[..., Any]) -> str | None:
    """A function that computes how long a job takes."""
    for job in JOBS:
        given, expected = function(*job), total_of(*job)
        if given is ...:
            raise NotAnswered
        value = plain(given)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"total_ms{job} returned {described(given)}: return a number of milliseconds."
        if not abs(value - expected) <= 1e-6 * expected:
            return f"total_ms{job} returned {described(given).removeprefix('the number ')}; that job takes {expected:g} ms."
    return None


def about_load(load: float) -> str:
    """What is wrong with milliseconds that are not those of the slow pipeline."""
    if abs(load - LATER_WAIT_MS) <= NEAR_MS:
        return "that is what it waits in a step; its pipeline works while the step computes, too."
    if abs(1000 * load - SLOW_INPUT_MS) <= NEAR_MS:
        return "that is the number of seconds. Give milliseconds."
    return "that is too little." if load < SLOW_INPUT_MS else "that is too much."


def worker_and_load(answer: Any) -> str | None:
    """The worker whose input is slow, and the milliseconds that its pipeline works on a batch."""
    value = plain(answer)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str) or isinstance(value[1], (str, bool, list)):
        return f"{described(answer)} is no pair of a worker and a number: give for example ('worker:0', 2.5)."
    worker, load = value[0].strip().lower(), value[1]
    if not math.isfinite(load):
        return f"{described(load)} is no number of milliseconds: give for example ('worker:0', 2.5)."
    if worker == "worker:1":
        return "worker:1 computes for longer than the others. But does it wait for its input?"
    if worker != SLOW_INPUT:
        return f"{described(worker)} is not the one: whose spans 'wait for input' are the longest?"
    if abs(load - SLOW_INPUT_MS) > NEAR_MS:
        return f"it is {worker}; but {load:g} ms: {about_load(load)}"
    return None


first_exercise = Exercise(
    "Write the function: it takes an InputContext, and returns a dataset.",
    a_function("of an InputContext that returns a dataset", reads_each_row_once),
    hints=(
        "Four steps on sd.Dataset.range(24), in the right order: shard, shuffle, batch(3), repeat.",
        "Shard first, so that the order cannot lose rows; shuffle all 8 rows of the pipeline; batch before repeat, so that no batch has "
        "rows of two epochs.",
    ),
    why="Sharded first, each pipeline owns its rows whatever the seed; batched before the repeat, an epoch ends where a batch ends.",
)

second_exercise = Exercise(
    "Write the function: it takes steps, load, step and prefetch, and returns milliseconds.",
    a_function("of steps, load, step and prefetch", gives_total),
    hints=(
        "Without prefetch each step waits for its whole load. With prefetch, which part of the job does not overlap with anything?",
        "With prefetch: the first load, then steps - 1 times the slower of the two, then the last step.",
    ),
    why="Only the first load and the last step overlap with nothing; all between runs at the pace of the slower one.",
)

third_exercise = Exercise(
    "Give the worker and the milliseconds as a pair, such as ('worker:0', 2.5).",
    worker_and_load,
    hints=(
        "cluster.trace.spans.where(lane='worker:0', category='input') are its waits; a span has duration_s, start_s and end_s.",
        "The first wait of a worker begins at 0, when its pipeline begins, too: it is the time of one whole batch.",
    ),
    why="Nothing overlaps with the first batch, so the first wait is the time of a batch. worker:1 has a slow processor, not a slow input.",
)
