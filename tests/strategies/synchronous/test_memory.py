"""What a synchronous step has computed is given back when it is over, not when the collector comes by."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd

REPLICAS, ROWS, WIDTH = 4, 64, 256


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def live_bytes() -> int:
    """Of all arrays of this process: JAX's, and what Python and numpy hold."""
    return tracemalloc.get_traced_memory()[0] + sum(array.nbytes for array in jax.live_arrays())


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.sample(2)
def test_steps_keep_no_numbers_alive(reads: bool) -> None:
    strategy = sd.MirroredStrategy(devices=REPLICAS)
    with strategy.scope():
        w = sd.Variable(np.zeros((WIDTH, WIDTH), np.float32))
        optimizer = sd.Optimizer(sd.keras.optimizers.SGD(0.01))
    rows = np.ones((REPLICAS * ROWS, WIDTH), np.float32)
    batches = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(rows).batch(REPLICAS * ROWS).repeat()))

    @sd.function
    def train_step(x: Any) -> Any:
        def step_fn(x: Any) -> Any:
            loss, gradients = sd.value_and_grad(lambda: ((x @ w.value - 1) ** 2).mean(), [w])()
            optimizer.apply_gradients(zip(gradients, [w], strict=True))
            return loss if reads else None

        return strategy.run(step_fn, args=(x,))

    def after(steps: int) -> int:
        for _ in range(steps):
            train_step(next(batches))
        w.numpy()
        return live_bytes()

    before = after(5)
    one_step = rows.nbytes + REPLICAS * WIDTH * WIDTH * 4  # its input, and the gradients of all replicas
    assert after(60) - before < 4 * one_step
