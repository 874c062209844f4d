"""A loss or a metric without targets: the error names what is missing, whether the model is new or has been trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.training.missing_targets import explained_without_targets

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
    model.compile("sgd", metrics=["mae"])
    with pytest.raises(sd.errors.InvalidArgumentError, match="doubler was compiled with"):
        model.fit(X, verbose=0)


@pytest.mark.parametrize(("y", "text"), [(X, "None is not a valid value for jnp.array"), (None, "shapes differ")])
def test_other_errors_stay_as_they_are(y: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text) as raised, explained_without_targets("doubler", y):
        raise ValueError(text)
    assert type(raised.value) is ValueError
