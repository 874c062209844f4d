"""Clusters and runs of lesson 08: who reads which row, how often a row is visited, and how long a job takes that waits for its input."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import simdist as sd
from simdist import keras
from simdist.hardware import Device, Network

__all__ = ["ROWS", "dataset_of_rows", "make_strategy", "read_steps", "times_read", "timed_job", "visits", "with_time", "words_of_warnings"]

ROWS = 24
STEP_S = 1.0  # of a worker under parameter servers

Steps = list[list[list[int]]]  # the rows of each reader, step by step


def make_strategy(workers: int, **cluster_options: Any) -> sd.MultiWorkerMirroredStrategy:
    """Let this program drive some workers whose network and processors take no time, so that only what is declared does."""
    quick = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
    options = {"hardware": quick, "network": Network(bandwidth=1e15, latency=0.0), **cluster_options}
    return sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": workers}, seed=8, **options))


def read_steps(strategy: Any, distributed: Iterable[Any]) -> Steps:
    """The rows of each replica, step by step, in one pass.

    Example:
        >>> strategy = sd.MirroredStrategy(2)
        >>> read_steps(strategy, strategy.distribute_dataset(sd.Dataset.range(5).batch(3)))
        [[[0, 1], [2]], [[3], [4]]]
    """
    return [[np.asarray(rows).tolist() for rows in strategy.local_results(batch)] for batch in distributed]


def times_read(steps: Steps, num_rows: int = ROWS) -> list[int]:
    """How often each row is read.

    Example:
        >>> times_read([[[0, 1], [1]]], num_rows=3)
        [1, 2, 0]
    """
    rows = np.array([row for readers in steps for rows in readers for row in rows], int)
    return np.bincount(rows, minlength=num_rows).tolist()


def with_time(dataset: sd.Dataset, milliseconds: float, policy: str = "AUTO") -> sd.Dataset:
    """A dataset that says how long a pipeline works on one of its elements, and how it is shared."""
    options = sd.Options()
    options.seconds_per_element = milliseconds / 1000
    options.auto_shard_policy = sd.AutoShardPolicy[policy]
    return dataset.with_options(options)


def timed_job(
    dataset: sd.Dataset | Callable[[sd.InputContext], sd.Dataset],
    steps: int,
    step_ms: float = 3.0,
    workers: int = 1,
    before_step: Callable[[int], float] = lambda number: 0.0,
    slow: Mapping[str, float] | None = None,
) -> sd.Cluster:
    """Take some steps on the elements of a dataset, and return the cluster.

    Args:
        dataset: batches of rows, or a function that makes those of a pipeline.
        steps: how many.
        step_ms: virtual milliseconds of a step.
        workers: how many.
        before_step: how many milliseconds the program spends with something else before the step of that number.
        slow: how many times as long as the others some workers take for a step.
    """
    strategy = make_strategy(workers)
    for task, factor in (slow or {}).items():
        strategy.cluster.faults.slow(task, factor=factor, at=0.0)
    with strategy.scope():
        total = sd.Variable(0, aggregation=sd.VariableAggregation.SUM)

    @sd.function(seconds=step_ms / 1000)
    def step(iterator: Any) -> None:
        strategy.run(lambda rows: total.assign_add(rows.sum()), args=(next(iterator),))

    is_whole = isinstance(dataset, sd.Dataset)
    distributed = strategy.distribute_dataset(dataset) if is_whole else strategy.distribute_datasets_from_function(dataset)
    iterator = iter(distributed)
    for number in range(steps):
        sd.sleep(before_step(number) / 1000, strategy.cluster)
        step(iterator)
    return strategy.cluster


def dataset_of_rows() -> sd.Dataset:
    """Row i is a vector with a 1 at i, so that the weight i of a linear model changes only where row i is visited."""
    return sd.Dataset.from_tensor_slices((np.eye(ROWS, dtype=np.float32), np.zeros((ROWS, 1), np.float32)))


def visits(
    data: Any, batch: int = 2, factor: float = 1.0, crash_s: float | None = None, **options: Any
) -> tuple[list[int], sd.ParameterServerStrategy]:
    """Train one epoch on three workers and a parameter server; return how often each row has changed its weight, and the strategy.

    Args:
        data: a dataset of batches, or a `DatasetCreator`, of which as many batches are taken as hold each row once.
        batch: rows of a batch.
        factor: how many times as long as the others worker:2 takes.
        crash_s: when worker:1 dies; it starts again a second later.
        options: of the strategy.
    """
    instant = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
    worker = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=STEP_S)
    hardware = {"worker": worker, "ps": instant, "chief": instant}
    cluster = sd.Cluster({"worker": 3, "ps": 1}, seed=8, hardware=hardware, network=Network(bandwidth=1e15, latency=0.02))
    cluster.faults.slow("worker:2", factor=factor, at=0.0)
    if crash_s is not None:
        cluster.faults.crash("worker:1", at=crash_s, restart_after=1.0)
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        model = keras.Sequential([keras.Input((ROWS,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        # the gradient of the mean of b outputs is 1/b for each visited row; a rate of b makes the weight a count
        model.compile(keras.optimizers.SGD(float(batch)), loss=lambda _, output: output, steps_per_execution=1)
    steps = ROWS // batch if isinstance(data, sd.DatasetCreator) else None
    model.fit(data, epochs=1, steps_per_epoch=steps, verbose=0)
    return np.rint(-model.get_weights()[0][:, 0]).astype(int).tolist(), strategy


def words_of_warnings(function: Callable[[], object]) -> str:
    """What a call warns of, in short lines.

    Example:
        >>> words_of_warnings(lambda: warnings.warn("too few files"))
        'too few files'
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return "\n".join(textwrap.fill(str(found.message), 90) for found in caught)
