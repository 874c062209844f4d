"""Small problems that the golden runs share: a regression, its linear model, and tiny networks, always with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import simdist as sd
from simdist import keras

Outcome = tuple[Any, list[Any]]
"""What a run gives: a cluster, and numbers."""

Golden = Callable[[], Outcome]

_RNG = np.random.default_rng(7)
ROWS = _RNG.normal(size=(24, 4)).astype(np.float32)
TARGETS = (ROWS @ np.array([[1.0], [-2.0], [0.5], [3.0]]) + 0.1 * _RNG.normal(size=(24, 1))).astype(np.float32)


def batches(size: int = 4) -> sd.Dataset:
    """All rows in batches."""
    return sd.Dataset.from_tensor_slices((ROWS, TARGETS)).batch(size)


def mean_square(output: Any, target: Any) -> Any:
    """The loss of one replica, so that the sum over replicas is the mean over the global batch."""
    return sd.compute_average_loss(((output - target) ** 2)[:, 0])


def perceptron(optimizer: Any, units: int = 3, layers: list[Any] | None = None, **options: Any) -> Any:
    """A compiled network with known weights; call it in a strategy's scope."""
    own = [keras.layers.Dense(units, "tanh", kernel_initializer=keras.initializers.GlorotUniform(seed=1))] if layers is None else layers
    last = keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=2))
    model = keras.Sequential([keras.Input((ROWS.shape[1],)), *own, last])
    model.compile(optimizer, "mse", **options)
    return model


def fitted(model: Any, history: Any) -> list[Any]:
    """What a fit leaves: each column of its history, weights, and the optimizer's slots."""
    columns = [np.array(column) for _, column in sorted(history.history.items())]
    return [*columns, *model.get_weights(), *[np.asarray(slot.value) for slot in model.optimizer.variables]]


class Linear:
    """A linear model of one variable in a loop of one's own; under a synchronous strategy.

    Args:
        strategy: under which.
        optimizer: of optax or Keras.
        units: outputs, whose mean is the prediction; many make long messages.
    """

    def __init__(self, strategy: Any, optimizer: Any, units: int = 1) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.weights = sd.Variable(np.full((ROWS.shape[1], units), 0.5, np.float32), name="weights")
            self.bias = sd.Variable(np.zeros(units, np.float32), name="bias")
            self.optimizer = sd.Optimizer(optimizer)

        variables = [self.weights, self.bias]

        def replica(batch: Any) -> Any:
            x, y = batch

            def loss() -> Any:
                return mean_square(jnp.mean(x @ self.weights.value + self.bias.value, axis=1, keepdims=True), y)

            value, gradients = sd.value_and_grad(loss, variables)()
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
            return value

        @sd.function
        def step(iterator: Any) -> Any:
            return strategy.reduce("sum", strategy.run(replica, args=(next(iterator),)), axis=None)

        self.step = step

    def train(self, dataset: Any, epochs: int = 2) -> list[Any]:
        """Losses, and what the variables are in the end."""
        losses = list[Any]()
        for _ in range(epochs):
            iterator = iter(self.strategy.distribute_dataset(dataset))
            while iterator.has_next():
                losses.append(self.step(iterator))
        return [np.array([float(loss) for loss in losses]), self.weights.numpy(), self.bias.numpy()]
