"""Optimizers whose attributes or schedules are changed after training began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True) * 3
WEIGHTS = [np.array([[0.5], [-0.5], [1.0]], np.float32), np.zeros(1, np.float32)]

STRATEGIES: dict[str, Callable[[], Any]] = {
    "device": sd.OneDeviceStrategy,
    "replicas": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
    "shards": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
}

CHANGES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "momentum": (lambda: plain.optimizers.SGD(0.02, momentum=0.9), {"momentum": 0.5}),
    "nesterov": (lambda: plain.optimizers.SGD(0.02, momentum=0.9), {"nesterov": True}),
    "clipvalue": (lambda: plain.optimizers.SGD(0.02), {"clipvalue": 0.1}),
    "weight decay": (lambda: plain.optimizers.AdamW(0.02, weight_decay=0.1), {"weight_decay": 0.9}),
    "beta": (lambda: plain.optimizers.Adam(0.02), {"beta_1": 0.2}),
    "accumulated steps": (lambda: plain.optimizers.SGD(0.02, gradient_accumulation_steps=2), {"gradient_accumulation_steps": 4}),
}


def halving() -> Any:
    return plain.optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)


def model_of(library: Any, optimizer: Any) -> Any:
    model = library.Sequential([library.Input((3,)), library.layers.Dense(1)])
    model.compile(optimizer, "mse")
    model.set_weights(WEIGHTS)
    return model


def fit(model: Any, **more: Any) -> None:
    model.fit(X, Y, batch_size=12, epochs=2, shuffle=False, verbose=0, **more)


def number(value: Any) -> float:
    return float(plain.ops.convert_to_tensor(value))


def both(strategy: str, optimizer: Callable[[], Any], train: Callable[[Any], None]) -> None:
    """Compare what a training makes of a model here and of one of plain Keras."""
    expected = model_of(plain, optimizer())
    train(expected)
    with STRATEGIES[strategy]().scope():
        model = model_of(keras, optimizer())
    train(model)
    for one, other in zip(model.get_weights(), expected.weights, strict=True):
        np.testing.assert_allclose(one, other.value, rtol=1e-4, atol=1e-5)
    assert number(model.optimizer.iterations) == number(expected.optimizer.iterations)
    assert number(model.optimizer.learning_rate) == pytest.approx(number(expected.optimizer.learning_rate))


@pytest.mark.sample
@pytest.mark.parametrize("strategy", ["replicas", "shards"])
@pytest.mark.parametrize("name", CHANGES)
def test_changed_attributes_count_when_a_model_is_compiled_again(name: str, strategy: str) -> None:
    make, changes = CHANGES[name]

    def train(model: Any) -> None:
        fit(model)
        for attribute, value in changes.items():
            setattr(model.optimizer, attribute, value)
        model.compile(model.optimizer, "mse")
        fit(model)

    both(strategy, make, train)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.sample(2)
def test_a_schedule_that_is_assigned_between_trainings_is_followed(strategy: str) -> None:
    def train(model: Any) -> None:
        fit(model)
        model.optimizer.learning_rate = halving()
        model.compile(model.optimizer, "mse")  # plain Keras has traced its step, too
        fit(model)
        model.optimizer.learning_rate = plain.optimizers.schedules.ExponentialDecay(0.5, 3, 0.1)
        model.compile(model.optimizer, "mse")
        fit(model)

    both(strategy, lambda: plain.optimizers.SGD(0.1, momentum=0.9), train)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_schedule_that_a_callback_assigns_counts_from_the_next_step_on(strategy: str) -> None:
    rates = [0.1, 0.1, *(0.05 * 0.5 ** (step / 2) for step in (2, 3))]
    values = [value.astype(np.float64) for value in WEIGHTS]
    for step, rate in enumerate(rates):
        x, y = X[12 * (step % 2) :][:12], Y[12 * (step % 2) :][:12]
        error = 2 * (x @ values[0] + values[1] - y) / 12
        values = [values[0] - rate * x.T @ error, values[1] - rate * error.sum(0)]
    with STRATEGIES[strategy]().scope():
        model = model_of(keras, keras.optimizers.SGD(0.1))

    def begin(epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            model.optimizer.learning_rate = halving()

    fit(model, callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=begin)])
    for one, other in zip(model.get_weights(), values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_a_step_that_was_traced_follows_a_schedule_that_is_assigned_later() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v, optimizer = sd.Variable(5.0), keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=1.0)
    wrapped = sd.Optimizer(optimizer)
    wrapped.build([v])
    step = sd.function(lambda: strategy.run(lambda: wrapped.apply_gradients([(jnp.float32(1.0), v)])))
    step()
    traces = step.traces
    optimizer.learning_rate = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.25, 0.5])
    step()
    step()
    assert float(v.numpy()) == 5.0 - 1.0 - 0.25 - 0.5
    assert step.traces == traces


@pytest.mark.parametrize(("attribute", "value"), [("momentum", 0.5), ("gradient_accumulation_steps", 2), ("use_ema", True)])
def test_a_change_that_needs_other_slots_is_refused(attribute: str, value: Any) -> None:
    with sd.OneDeviceStrategy().scope():
        model = model_of(keras, keras.optimizers.SGD(0.1))
    fit(model)
    setattr(model.optimizer, attribute, value)
    model.compile(model.optimizer, "mse")
    with pytest.raises(InvalidArgumentError, match=f"{attribute}.*make a new optimizer"):
        fit(model)


def test_a_norm_that_is_asked_for_later_is_refused_on_several_servers() -> None:
    with STRATEGIES["servers"]().scope():
        model = model_of(keras, keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))
    fit(model)
    model.optimizer.global_clipnorm = 0.5
    model.compile(model.optimizer, "mse")
    with pytest.raises(InvalidArgumentError, match="different servers"):
        fit(model)
