"""Copies of models are models of the same strategy, with variables of their own; variables by themselves say that they cannot be copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)


def trained(strategy: sd.Strategy) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
        model.compile("adam", "mse")
    model.fit(X, X[:, :1], batch_size=4, shuffle=False, verbose=0)
    return model


def weights(model: Any) -> list[np.ndarray]:
    return [np.array(value) for value in model.get_weights()]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_model_trains_on_under_its_strategy_and_leaves_the_model_alone(copied: Callable[[Any], Any]) -> None:
    strategy = sd.MirroredStrategy(2)
    model = trained(strategy)
    other = copied(model)
    assert other.simdist_strategy is strategy
    before = weights(model)
    other.fit(X, X[:, :1], batch_size=4, shuffle=False, verbose=0)
    assert all(np.array_equal(value, old) for value, old in zip(weights(model), before, strict=True))
    model.fit(X, X[:, :1], batch_size=4, shuffle=False, verbose=0)
    # The copy had the moments of Adam, too.
    assert all(np.array_equal(one, two) for one, two in zip(weights(model), weights(other), strict=True))


def test_a_copy_in_the_scope_of_another_strategy_belongs_to_that_one() -> None:
    model, strategy = trained(sd.MirroredStrategy(2)), sd.OneDeviceStrategy()
    with strategy.scope():
        other = copy.deepcopy(model)
    assert other.simdist_strategy is strategy
    np.testing.assert_array_equal(other.predict(X, verbose=0), model.predict(X, verbose=0))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_variable_says_that_it_cannot_be_copied(copied: Callable[[Any], Any]) -> None:
    with sd.MirroredStrategy(2).scope():
        variable, layer = sd.Variable([1.0], name="w"), keras.layers.Dense(1, name="d")
        layer.build((None, 2))
    for of, name in ((variable, "w"), (layer.kernel, "d/kernel")):
        with pytest.raises(TypeError, match=rf"The variable '{name}' cannot be pickled or copied.*numpy\(\)"):
            copied(of)
