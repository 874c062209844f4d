"""MirroredStrategy, 784-128-10, batches of 32 for each replica, SGD: seconds a step against a bare loop over the replicas.

The bare loop calls one jitted gradient for each replica's part, adds them up, and updates once: the same numbers without a
cluster. Compile time is measured apart, because every replica is traced into one program.

Run: ``python -m simdist bench synchronous``, or this file with ``--quick``.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import numpy as np

import simdist as sd
from simdist import keras

WIDTHS, BATCH = (784, 128, 10), 32


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [rows, 784] and labels [rows]."""
    rng = np.random.default_rng(0)
    return rng.random((rows, WIDTHS[0])).astype(np.float32), rng.integers(0, WIDTHS[-1], rows).astype(np.int32)


def simulated(replicas: int, steps: int) -> tuple[float, float]:
    """Seconds a step, and seconds until the first step was done."""
    x, y = data(replicas * BATCH * 4)
    with sd.MirroredStrategy(devices=replicas).scope():
        model = keras.Sequential(
            [keras.Input((WIDTHS[0],)), keras.layers.Dense(WIDTHS[1], activation="relu"), keras.layers.Dense(WIDTHS[2])]
        )
        model.compile(keras.optimizers.SGD(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = sd.Dataset.from_tensor_slices((x, y)).repeat().batch(replicas * BATCH)

    def run(count: int) -> float:
        began = time.perf_counter()
        model.fit(dataset, epochs=1, steps_per_epoch=count, verbose=0)
        return time.perf_counter() - began

    first_s = run(1)
    run(steps)
    return min(run(steps) for _ in range(3)) / steps, first_s


def bare(replicas: int, steps: int) -> float:
    """Seconds a step of the loop of the jitted gradient."""
    x, y = data(replicas * BATCH * 4)
    rng = np.random.default_rng(1)
    start = [rng.normal(0, 0.1, shape).astype(np.float32) for shape in ((784, 128), (128,), (128, 10), (10,))]

    def loss(p: Any, x: Any, y: Any) -> Any:
        logits = jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3]
        return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    gradient = jax.jit(jax.grad(loss))
    add = jax.jit(lambda a, b: jax.tree_util.tree_map(jax.numpy.add, a, b))
    update = jax.jit(lambda p, g: jax.tree_util.tree_map(lambda a, b: a - 0.05 / replicas * b, p, g))

    def run(count: int) -> float:
        parameters: Any = start
        began = time.perf_counter()
        for number in range(count):
            offset = number % 4 * replicas * BATCH
            total = None
            for replica in range(replicas):
                rows = slice(offset + replica * BATCH, offset + (replica + 1) * BATCH)
                part = gradient(parameters, x[rows], y[rows])
                total = part if total is None else add(total, part)
            parameters = update(parameters, total)
        jax.block_until_ready(parameters)
        return time.perf_counter() - began

    run(3)
    return min(run(steps) for _ in range(3)) / steps


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    print(f"{'784-128-10, batch 32 a replica, ms a step':<44} {'simdist':>9} {'bare loop':>10} {'ratio':>6} {'first step':>11}")
    for replicas in (2,) if quick else (1, 2, 4, 8, 16, 64):
        steps = 3 if quick else max(20, 160 // replicas)
        (ours_s, first_s), loop_s = simulated(replicas, steps), bare(replicas, steps)
        label = f"{replicas} replicas"
        print(f"{label:<44} {ours_s * 1e3:>9.2f} {loop_s * 1e3:>10.2f} {ours_s / loop_s:>6.2f} {first_s:>10.1f}s", flush=True)
