"""A step that would make variables of Keras: it says how to build them before, and leaves the model as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

X = np.ones((4, 2), np.float32)


def test_layer_that_a_step_makes_is_refused_in_the_first_trace() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"would make the Keras variable 'dense[_0-9]*/kernel', in each of its traces another one"
    ):
        sd.MirroredStrategy(2).run(lambda: keras.layers.Dense(1)(X))


def test_model_that_a_step_refused_to_build_can_be_built_afterwards() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3), keras.layers.Dense(1)])
    with pytest.raises(InvalidArgumentError, match=r"would make the Keras variable .*/kernel'.*keras\.Input\(shape\)"):
        strategy.run(lambda: model.build((None, 2)))
    assert not model.weights
    with strategy.scope():
        model.build((None, 2))
    first, _, second, _ = model.get_weights()
    assert strategy.local_results(strategy.run(lambda: model(X)))[0] == pytest.approx(X @ first @ second, rel=1e-5)


def test_metric_that_a_step_would_make_is_refused_by_its_name() -> None:
    def count() -> Any:
        mean = keras.metrics.Mean()
        mean.update_state(1.0)
        return mean.result()

    with pytest.raises(InvalidArgumentError, match=r"would make the Keras variable 'mean/total'.*before the step"):
        sd.MirroredStrategy(2).run(count)


@pytest.mark.parametrize(
    "make, path", [(keras.optimizers.Adam, r"adam(_\d+)?/iteration"), (lambda: keras.Variable(1.0, name="own"), "own")]
)
def test_variable_with_a_value_that_a_step_would_make_is_refused_by_its_name(make: Any, path: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"would make the Keras variable '{path}', .*before the step"):
        sd.MirroredStrategy(2).run(lambda: make() and None)


def test_step_of_a_plain_model_without_any_strategy_is_told_that_it_is_none() -> None:
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(InvalidArgumentError, match=r"made outside strategy\.scope.*call it without @sd\.function"):
        sd.function(lambda x: plain(x))(X)
    assert plain(X).shape == (4, 1)
