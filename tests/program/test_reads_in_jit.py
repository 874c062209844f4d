"""Functions that users give to `jax.jit` and call outside of steps: a variable that they read is a constant of them, which is warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import ConstantReadWarning

STRATEGIES = [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2), lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))]
X = np.ones((2, 3), np.float32)


def layered(*layers: Any) -> Any:
    with sd.MirroredStrategy(2).scope():
        return keras.Sequential([keras.Input((None, 3)), *layers])


@pytest.mark.parametrize("make", STRATEGIES, ids=["one device", "replicas", "servers"])
def test_a_read_in_a_compiled_function_outside_of_steps_is_warned_of(make: Callable[[], Any]) -> None:
    with make().scope():
        v = sd.Variable(2.0, name="v")
    scaled = jax.jit(lambda x: x * v.value)
    with pytest.warns(ConstantReadWarning, match="reads the variable 'v'"):
        assert float(scaled(3.0)) == 6.0
    v.assign(5.0)
    assert float(scaled(3.0)) == 6.0  # as the warning says


def test_a_compiled_call_of_a_model_is_warned_of_also_inside_a_scan() -> None:
    model = layered(keras.layers.GRU(2))
    with pytest.warns(ConstantReadWarning, match="gru"):
        jax.jit(lambda x: model(x))(X[None])


def test_what_keeps_no_number_is_not_warned_of() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v = sd.Variable(2.0, name="v")
    model = layered(keras.layers.Bidirectional(keras.layers.LSTM(2)), keras.layers.Dense(1))
    given = [variable.value for variable in model.trainable_variables], [variable.value for variable in model.non_trainable_variables]
    scaled = jax.jit(lambda x: x * v.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(jax.grad(lambda x: x * v.value)(3.0)) == 2.0
        assert jax.vmap(lambda x: x * v.value)(jnp.ones(2)).tolist() == [2.0, 2.0]
        model(X[None])
        jax.jit(lambda given, x: model.stateless_call(*given, x)[0])(given, X[None])
        assert float(strategy.run(sd.function(lambda: scaled(3.0)))) == 6.0
        v.assign(5.0)
        assert float(strategy.run(sd.function(lambda: scaled(3.0)))) == 15.0
