"""Asynchronous linear model (10 -> 1, batch 32, SGD) on 2 parameter servers, against a bare loop of the same jitted functions.

The bare loop computes the same gradients and updates without any cluster: no schedule, no time, no network.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

import simdist as sd
from simdist import keras

ROWS, BATCH, STEPS = 640, 32, 6_000


def data() -> tuple[np.ndarray, np.ndarray]:
    """Inputs [640, 10] and targets [640, 1]."""
    x = np.random.default_rng(0).random((ROWS, 10)).astype(np.float32)
    return x, x.sum(axis=1, keepdims=True)


def simulated(workers: int, numerics: str) -> float:
    """Worker-steps a second, ten steps a closure, after a first run that compiles."""
    x, y = data()
    cluster = sd.Cluster({"worker": workers, "ps": 2}, numerics=numerics)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        w, b = sd.Variable(np.zeros((10, 1), np.float32), name="w"), sd.Variable(np.zeros(1, np.float32), name="b")
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.05))

    @sd.function
    def step(iterator: Any) -> Any:
        features, targets = next(iterator)
        loss, gradients = sd.value_and_grad(lambda: (((features @ w.value + b.value) - targets) ** 2).mean(), [w, b])()
        optimizer.apply_gradients(zip(gradients, [w, b], strict=True))
        return loss

    coordinator = sd.ClusterCoordinator(strategy)
    dataset = coordinator.create_per_worker_dataset(
        lambda: sd.Dataset.from_tensor_slices((x, y)).shuffle(ROWS, seed=0).repeat().batch(BATCH)
    )
    iterator = iter(dataset)

    def run(steps: int) -> None:
        for _ in range(steps // 10):
            coordinator.schedule_steps(step, (iterator,), {}, 10)
        coordinator.join()
        if numerics != "off":
            w.numpy()

    run(max(3_000, 20 * workers))
    began = time.perf_counter()
    run(STEPS)
    return STEPS / (time.perf_counter() - began)


def bare() -> float:
    """Steps a second of a Python loop of the jitted gradient and the jitted update."""
    x, y = data()
    gradient = jax.jit(jax.value_and_grad(lambda p, x, y: (((x @ p[0] + p[1]) - y) ** 2).mean()))
    update = jax.jit(lambda p, g: jax.tree_util.tree_map(lambda a, b: a - 0.05 * b, p, g))
    parameters = (np.zeros((10, 1), np.float32), np.zeros(1, np.float32))
    order = np.random.default_rng(0).integers(0, ROWS, (STEPS, BATCH))
    for count in (10, STEPS):
        began = time.perf_counter()
        for rows in order[:count]:
            _, gradients = gradient(parameters, x[rows], y[rows])
            parameters = update(parameters, gradients)
        jax.block_until_ready(parameters)
    return STEPS / (time.perf_counter() - began)


if __name__ == "__main__":
    loop = bare()
    print(f"{'asynchronous linear model, worker-steps/s':<44} {'simdist':>12} {'bare loop':>12} {'ratio':>8}")
    for workers in (3, 30, 300):
        for numerics in ("deferred", "off"):
            rate = simulated(workers, numerics)
            label = f"{workers} workers, " + ("with numbers" if numerics == "deferred" else "timing only")
            print(f"{label:<44} {rate:>12,.0f} {loop:>12,.0f} {rate / loop:>8.2f}")
