"""A regression that replicas train together while some of them are silent, and what numpy makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optax

import simdist as sd
from simdist.hardware import Network

Plan = Callable[[sd.Cluster], Any]

ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
BATCH, RATE, MOMENTUM = 12, 0.1, 0.5
TIMEOUT_S = 30.0
SLOW = Network(bandwidth=16.0, latency=1e-3)  # the sixteen bytes of the variable take a second


def by_numpy(steps: int) -> np.ndarray:
    """The weights after so many steps of gradient descent on (x w - 1)^2."""
    w, velocity = np.zeros(4), np.zeros(4)
    for number in range(steps):
        x = ROWS[np.arange(BATCH) + BATCH * number % len(ROWS)].astype(float)
        velocity = MOMENTUM * velocity + 2.0 * x.T @ (x @ w - 1.0) / BATCH
        w -= RATE * velocity
    return w


def build(strategy: Any) -> tuple[sd.Variable, Callable[[], Any]]:
    with strategy.scope():
        w = sd.Variable(np.zeros(4, np.float32), name="w")
        optimizer = sd.Optimizer(optax.sgd(RATE, momentum=MOMENTUM))
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(ROWS).batch(BATCH).repeat()))

    @sd.function(seconds=0.05)
    def step(iterator: Any) -> None:
        def replica(x: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: sd.compute_average_loss((x @ w.value - 1.0) ** 2), [w])()
            optimizer.apply_gradients(zip(gradients, [w], strict=True))

        strategy.run(replica, args=(next(iterator),))

    return w, lambda: step(iterator)


def close(w: Any, steps: int) -> None:
    np.testing.assert_allclose(w.numpy() if isinstance(w, sd.Variable) else w, by_numpy(steps), rtol=0, atol=3e-6)
