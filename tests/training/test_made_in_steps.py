"""A step that would make variables of Keras: it says how to build them before, and leaves the model as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

X = np.ones((4, 2), np.float32)


class Two(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = keras.layers.Dense(3), keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))


def sequence() -> keras.Sequential:
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3), keras.layers.Dense(1)])


def by_example(model: Any) -> None:
    model(np.ones((8, 2), np.float32))


def by_shape(model: Any) -> None:
    model.build((None, 2))


@pytest.mark.parametrize(("make", "build"), [(sequence, by_example), (sequence, by_shape), (Two, by_example)])
def test_model_that_a_step_refused_to_build_can_be_built_and_trained(make: Callable[[], Any], build: Callable[[Any], object]) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model, optimizer = make(), keras.optimizers.SGD(0.1)

    @sd.function
    def step(x: Any) -> Any:
        loss, gradients = sd.value_and_grad(lambda: (model(x) ** 2).mean(), model.trainable_variables)()
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    with pytest.raises(InvalidArgumentError, match=r"would make the Keras variable .*dense.*/kernel'.*keras\.Input\(shape\)"):
        strategy.run(step, args=(X,))
    with strategy.scope():
        build(model)
    weights = [weight.copy() for weight in model.get_weights()]
    before = float(strategy.local_results(strategy.run(step, args=(X,)))[0])
    expected = X @ weights[0] @ weights[2]  # the biases are 0 at first
    assert before == pytest.approx(float((expected**2).mean()), rel=1e-5)
    assert float(strategy.local_results(strategy.run(step, args=(X,)))[0]) < before


def test_metric_that_a_step_would_make_is_refused_by_its_name() -> None:
    def count() -> Any:
        mean = keras.metrics.Mean()
        mean.update_state(1.0)
        return mean.result()

    with pytest.raises(InvalidArgumentError, match=r"would make the Keras variable 'mean/total'.*before the step"):
        sd.MirroredStrategy(2).run(count)


def test_step_of_a_plain_model_without_any_strategy_is_told_that_it_is_none() -> None:
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(InvalidArgumentError, match=r"made outside strategy\.scope.*call it without @sd\.function"):
        sd.function(lambda x: plain(x))(X)
    assert plain(X).shape == (4, 1)
