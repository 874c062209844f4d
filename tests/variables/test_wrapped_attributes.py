"""What is set on an `sd.Optimizer`: its learning rate counts in the next step, and what no step would read is refused."""

from __future__ import annotations

from typing import Any

import optax
import pytest

import simdist as sd
from simdist import keras


def changes(strategy: Any, optimizer: sd.Optimizer, rates: list[Any]) -> list[float]:
    """How far a gradient of 1 moves a variable, step by step, each with another rate."""
    with strategy.scope():
        v = sd.Variable(0.0)
    step = sd.function(lambda: optimizer.apply_gradients([(v.value * 0.0 + 1.0 / strategy.num_replicas_in_sync, v)]))
    found: list[float] = []
    for rate in rates:
        optimizer.learning_rate = rate
        before = float(v.numpy())
        strategy.run(step)
        found.append(before - float(v.numpy()))
    return found


@pytest.mark.parametrize("make", [lambda: sd.OneDeviceStrategy(), lambda: sd.MirroredStrategy(2)])
def test_learning_rate_of_the_wrapper_is_that_of_the_next_step(make: Any) -> None:
    strategy = make()
    with strategy.scope():
        optimizer = sd.Optimizer(keras.optimizers.SGD(7.0))
    assert changes(strategy, optimizer, [0.1, 0.5, 0.25]) == pytest.approx([0.1, 0.5, 0.25])
    assert float(optimizer.learning_rate) == float(optimizer.wrapped.learning_rate) == 0.25
    optimizer.learning_rate.assign(2.0)
    assert float(optimizer.learning_rate) == 2.0


def test_schedule_can_be_set_on_the_wrapper() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        optimizer = sd.Optimizer(keras.optimizers.SGD(7.0))
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.5, 0.125])
    assert changes(strategy, optimizer, [schedule, schedule]) == pytest.approx([0.5, 0.125])


def test_attribute_of_the_keras_optimizer_is_refused_and_says_where_it_is() -> None:
    optimizer = sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    with pytest.raises(AttributeError, match=r"No step would read the attribute 'momentum' .*optimizer\.wrapped\.momentum"):
        optimizer.momentum = 0.5  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute 'momentum'\. .*optimizer\.wrapped\.momentum"):
        _ = optimizer.momentum
    with pytest.raises(AttributeError, match=r"'learning_rte' of an sd\.Optimizer\.$"):
        optimizer.learning_rte = 0.5  # type: ignore[attr-defined]


def test_rate_of_an_optax_transformation_is_a_schedule() -> None:
    optimizer = sd.Optimizer(optax.sgd(0.1))
    with pytest.raises(AttributeError, match=r"Give it a schedule when it is made"):
        optimizer.learning_rate = 0.5
    with pytest.raises(AttributeError, match=r"Give it a schedule when it is made"):
        _ = optimizer.learning_rate
