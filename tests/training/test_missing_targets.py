"""A loss or a metric without targets: the error names what is missing, whether the model is new or has been trained."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.ones((8, 3), np.float32)
STRATEGIES = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1})),
}


def compiled(strategy: str, loss: str | None = "mse") -> Any:
    with STRATEGIES[strategy]().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)], name="doubler")
        model.compile("sgd", loss, metrics=["mae"])
    return model


@pytest.mark.parametrize(
    ("strategy", "method", "is_trained"),
    [
        ("mirrored", "fit", False),
        ("mirrored", "fit", True),
        ("servers", "train_on_batch", True),
        ("mirrored", "evaluate", False),
        ("servers", "evaluate", True),
        ("mirrored", "test_on_batch", True),
    ],
)
def test_missing_targets_are_named(strategy: str, method: str, is_trained: bool) -> None:
    model = compiled(strategy)
    if is_trained:
        model.fit(X, X[:, :1], verbose=0)
    before = [value.copy() for value in model.get_weights()]
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"doubler was compiled with a loss or .* the data has none\. Give y"):
        getattr(model, method)(X)
    assert all(map(np.array_equal, before, model.get_weights()))


def test_metric_without_targets_is_named_where_the_loss_needs_none() -> None:
    with sd.MirroredStrategy(2).scope():
        inputs = keras.Input((3,))
        outputs = keras.layers.Dense(1, activity_regularizer="l2")(inputs)
        model = keras.Model(inputs, outputs, name="doubler")
    model.compile("sgd")
    assert np.isfinite(model.fit(X, verbose=0).history["loss"][0])
    for is_trained in (False, True):
        model.compile("sgd", metrics=["mae"])
        if is_trained:
            model.fit(X, X[:, :1], verbose=0)
        with pytest.raises(sd.errors.InvalidArgumentError, match="doubler was compiled with"):
            model.fit(X, verbose=0)


@pytest.mark.parametrize(
    ("compiled_with", "y"),
    [
        ({"loss": ["mse", "mse"]}, None),
        ({"loss": ["mse", "mse"]}, [None, None]),
        ({"loss": "mse"}, None),
        ({"loss": ["mse", "mse"], "metrics": [["accuracy"], []]}, None),
    ],
)
def test_missing_targets_of_several_outputs_are_named_whatever_keras_says(compiled_with: dict[str, Any], y: Any) -> None:
    with sd.OneDeviceStrategy().scope():
        inputs = keras.Input((3,))
        model = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)], name="doubler")
        model.compile("sgd", **compiled_with)
    with pytest.raises(sd.errors.InvalidArgumentError, match="doubler was compiled with"):
        model.evaluate(X, y, verbose=0)


class Wrong(keras.Model):
    """Whose own code gives JAX a None."""

    def __init__(self, in_call: bool) -> None:
        super().__init__()
        self.in_call, self.dense = in_call, keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(jnp.asarray(None) if self.in_call else x)

    def compute_loss(self, *_: Any, **__: Any) -> Any:
        return jnp.asarray(None)


@pytest.mark.parametrize("in_call", [True, False])
def test_an_error_of_the_code_of_a_user_stays_as_it_is_where_there_are_no_targets(in_call: bool) -> None:
    with sd.OneDeviceStrategy().scope():
        model = Wrong(in_call)
        model.compile("sgd", "mse")
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="None is not a valid value") as raised:
            method(X, verbose=0)
        assert not isinstance(raised.value, sd.errors.SimdistError)


class MeanOutput(keras.metrics.Mean):
    def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_pred)


def test_a_metric_that_needs_no_targets_has_none_and_keeps_its_errors() -> None:
    for is_of_the_strategy in (True, False):
        outside = MeanOutput()
        with sd.OneDeviceStrategy().scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile("sgd", metrics=[MeanOutput() if is_of_the_strategy else outside])
        if is_of_the_strategy:
            assert model.evaluate(X, verbose=0) == [0.0, 3.0]
        else:
            with pytest.raises(sd.errors.InvalidArgumentError, match=r"made outside strategy\.scope"):
                model.fit(X, verbose=0)


def test_an_error_with_targets_stays_as_it_is() -> None:
    model = compiled("mirrored", "categorical_crossentropy")
    with pytest.raises(ValueError, match="Incompatible shapes") as raised:
        model.fit(X, np.ones((8, 2, 2)), verbose=0)
    assert not isinstance(raised.value, sd.errors.SimdistError)
