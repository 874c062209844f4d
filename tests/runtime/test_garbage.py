"""Steps leave nothing behind that only Python's collector could free: what they made goes when they end."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

WARM_UP, STEPS = 12, 20
X = np.random.default_rng(0).random((64, 6), np.float32)
Y = X.sum(1, keepdims=True)
IDS = np.random.default_rng(1).integers(0, 300, (64, 3)).astype(np.int32)
Run = Callable[[int], None]


def rows_of_a_table(servers: int, **options: Any) -> Run:
    """Closures that read and change rows of a table on so many servers."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": servers}), sd.FixedShardsPartitioner(servers), **options)
    with strategy.scope():
        table, rule = sd.Variable(np.ones((300, 4), np.float32)), sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function
    def step(iterator: Any) -> Any:
        ids = next(iterator)
        value, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        rule.apply_gradients(zip(gradients, [table], strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    return scheduled(
        coordinator, step, iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices(IDS).batch(8).repeat()))
    )


def closures(**options: Any) -> Run:
    """Closures with dense variables."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), **options)
    with strategy.scope():
        kernel, rule = sd.Variable(np.ones((6, 1), np.float32)), sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function
    def step(iterator: Any) -> Any:
        x, y = next(iterator)
        value, gradients = sd.value_and_grad(lambda: ((x @ kernel.value - y) ** 2).mean(), [kernel])()
        rule.apply_gradients(zip(gradients, [kernel], strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    return scheduled(
        coordinator, step, iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices((X, Y)).batch(8).repeat()))
    )


def scheduled(coordinator: sd.ClusterCoordinator, step: Any, iterator: Any) -> Run:
    def run(steps: int) -> None:
        values = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
        coordinator.join()
        values[-1].fetch()

    return run


def replicas(strategy: Any) -> Run:
    """Synchronous steps whose results are read."""
    with strategy.scope():
        kernel, rule = sd.Variable(np.ones((6, 1), np.float32)), sd.Optimizer(keras.optimizers.SGD(0.1))
    batches = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices((X, Y)).batch(16).repeat()))

    @sd.function
    def step(batch: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            value, gradients = sd.value_and_grad(lambda: sd.compute_average_loss(((x @ kernel.value - y) ** 2).sum(-1)), [kernel])()
            rule.apply_gradients(zip(gradients, [kernel], strict=True))
            return value

        return strategy.reduce("sum", strategy.run(replica, args=batch), axis=None)

    def run(steps: int) -> None:
        for _ in range(steps):
            float(step(next(batches)))

    return run


PROGRAMS: dict[str, Callable[[], Run]] = {
    "closures": closures,
    "rounds": lambda: closures(mode="sync"),
    "servers with copies": lambda: closures(recovery="replica"),
    "rows of many servers": lambda: rows_of_a_table(8),
    "rows of few servers": lambda: rows_of_a_table(2),
    "one device": lambda: replicas(sd.OneDeviceStrategy()),
    "mirrored": lambda: replicas(sd.MirroredStrategy(3)),
    "workers": lambda: replicas(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))),
    "central storage": lambda: replicas(sd.CentralStorageStrategy(2)),
}


def left_by(run: Run) -> Counter[str]:
    """What only the collector frees after so many steps, by type."""
    while gc.collect():  # the first pass ends greenlets and empties JAX's caches by weak reference, and so leaves more to free
        pass
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        run(STEPS)
        gc.collect()
        return Counter(type(one).__qualname__ for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_object_of_a_step_waits_for_the_collector(name: str) -> None:
    run = PROGRAMS[name]()
    run(WARM_UP)
    # The steps leave the same each time; what earlier tests left in a cache of JAX that lets it go meanwhile is found once.
    found = min((left_by(run) for _ in range(2)), key=Counter.total)
    assert found.total() < STEPS, found  # what begins and ends with a call of `run` is not counted
