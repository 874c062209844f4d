"""What a step reads of an optimizer after it has applied it: counts, slots and scales of after the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras as plain
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: keras.optimizers.Adam(0.1),
    "accumulating": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
    "optax": lambda: optax.adam(0.1),
}
COUNTS = {"accumulating": [(0, 0), (0, 1), (1, 1)]}


def counting_step(strategy: sd.Strategy, make: Callable[[], Any]) -> Callable[[], tuple[jax.Array, jax.Array]]:
    with strategy.scope():
        v, optimizer = sd.Variable(3.0), sd.Optimizer(make())
    optimizer.build([v])

    @sd.function
    def step() -> tuple[jax.Array, jax.Array]:
        before = jnp.asarray(optimizer.iterations) + 0
        optimizer.apply_gradients([(v.value * 2, v)])
        return before, jnp.asarray(optimizer.iterations) + 0

    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.sample
def test_the_count_of_steps_after_an_update_counts_it(name: str, replicas: int) -> None:
    strategy = sd.MirroredStrategy(replicas)
    step = counting_step(strategy, OPTIMIZERS[name])
    found = [strategy.local_results(strategy.run(step))[0] for _ in range(3)]
    assert [tuple(map(int, counts)) for counts in found] == COUNTS.get(name, [(0, 1), (1, 2), (2, 3)])


def test_a_worker_reads_the_count_of_its_update_and_a_step_of_a_round_is_refused() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    step = counting_step(strategy, OPTIMIZERS["adam"])
    coordinator = sd.ClusterCoordinator(strategy)
    assert [tuple(map(int, coordinator.schedule(step).fetch())) for _ in range(2)] == [(0, 1), (1, 2)]
    rounds = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), mode="sync")
    step = counting_step(rounds, OPTIMIZERS["adam"])
    coordinator = sd.ClusterCoordinator(rounds)
    coordinator.schedule(step)
    with pytest.raises(FailedPreconditionError, match="after it has changed it"):
        coordinator.join()


def test_a_count_is_not_read_where_the_update_was_held_back() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v, optimizer = sd.Variable(3.0), sd.Optimizer(keras.optimizers.SGD(0.1))

    def loss() -> jax.Array:
        optimizer.apply_gradients([(v.value * 2, v)])
        return jnp.asarray(optimizer.iterations) * 1.0

    with pytest.raises(InvalidArgumentError, match="after apply_gradients has changed it there"):
        strategy.run(sd.function(lambda: sd.value_and_grad(loss, [v])()[0]))


def stepping(base: Any) -> Any:
    class Stepping(base):  # type: ignore[misc]
        """Logs the state of its optimizer before and after each update."""

        def __init__(self) -> None:
            super().__init__()
            self.dense = plain.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def train_step(self, state: Any, data: Any) -> Any:
            weights, others, own, metrics = state

            def loss(weights: Any) -> Any:
                return jnp.mean((self.stateless_call(weights, others, data[0])[0] - data[1]) ** 2)

            value, gradients = jax.value_and_grad(loss)(weights)
            before = {f"before_{number}": jnp.sum(value) for number, value in enumerate(own)}
            weights, own = self.optimizer.stateless_apply(own, gradients, weights)
            after = {f"after_{number}": jnp.sum(value) for number, value in enumerate(own)}
            return {"loss": value, **before, **after}, (weights, others, own, metrics)

    return Stepping()


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("name", ["adam", "accumulating", "scaled"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_what_stateless_apply_returns_of_the_optimizer_is_that_of_keras(name: str, replicas: int) -> None:
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)

    def history(model: Any) -> dict[str, list[float]]:
        model.compile(OPTIMIZERS[name]())
        model(x)
        model.set_weights([np.ones((2, 1)), np.zeros(1)])
        return model.fit(x, x[:, :1], batch_size=4, epochs=2, shuffle=False, verbose=0).history

    with sd.MirroredStrategy(replicas).scope():
        model = stepping(keras.Model)
        found = history(model)
    expected = history(stepping(plain.Model))
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=1e-7, err_msg=key)


def test_eager_steps_read_counts_after_updates_as_compiled_ones_do() -> None:
    strategy = sd.OneDeviceStrategy()
    step = counting_step(strategy, OPTIMIZERS["adam"])
    step.run_eagerly = True  # type: ignore[attr-defined]
    assert [tuple(map(int, strategy.run(step))) for _ in range(2)] == [(0, 1), (1, 2)]
