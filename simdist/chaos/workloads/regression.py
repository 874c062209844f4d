"""The problem that the workloads of a campaign share: a linear regression on a few rows, far from its solution.

Each batch moves the weights by far more than rounding, so that one batch lost or counted twice is seen. Shapes are few, so that
scenarios share what is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["BATCH_SIZES", "FEATURES", "INPUTS", "LEARNING_RATE", "MOMENTUM", "ROWS", "START", "TARGETS", "Training", "batches"]

ROWS, FEATURES = 24, 3
INPUTS = np.cos(np.arange(ROWS * FEATURES) * 1.7).reshape(ROWS, FEATURES).astype(np.float32)
TARGETS = (INPUTS @ np.array([[1.0], [-2.0], [3.0]], np.float32)) + np.float32(0.5)
START = np.full((FEATURES, 1), 5.0, np.float32)
BATCH_SIZES = (6, 8)
LEARNING_RATE, MOMENTUM = 0.05, 0.5


def batches(batch_size: int) -> sd.Dataset:
    """The rows again and again, in batches."""
    return sd.Dataset.from_tensor_slices((INPUTS, TARGETS)).repeat().batch(batch_size)


class Training:
    """Weights, an optimizer (perhaps with slots) and a step of a synchronous strategy."""

    def __init__(self, strategy: SynchronousStrategy, batch_size: int, momentum: bool) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.weights = sd.Variable(START, name="weights")
            self.optimizer = sd.Optimizer(optax.sgd(LEARNING_RATE, momentum=MOMENTUM if momentum else None))
        self.iterator = iter(strategy.distribute_dataset(batches(batch_size)))

        def replica_step(batch: tuple[jax.Array, jax.Array]) -> None:
            x, y = batch

            def loss() -> jax.Array:
                return jnp.sum((x @ self.weights.value - y) ** 2) / batch_size

            _, gradients = sd.value_and_grad(loss, [self.weights])()
            self.optimizer.apply_gradients(zip(gradients, [self.weights], strict=True))

        @sd.function
        def step(iterator: Any) -> None:
            strategy.run(replica_step, args=(next(iterator),))

        self._step = step

    def step(self) -> None:
        self._step(self.iterator)

    def value(self) -> np.ndarray:
        return np.asarray(self.weights.numpy())

    def copies(self) -> Sequence[np.ndarray]:
        """The weights as each replica of this program has them."""
        return [np.asarray(value) for value in self.strategy.local_results(self.weights)]
