"""A model that was made outside of every scope: what a scope refuses of it at once, and what is left as it was then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError

X = np.ones((16, 4), np.float32)
Y = np.ones((16, 1), np.float32)


def batches() -> sd.Dataset:
    return sd.Dataset.from_tensor_slices((X, Y)).batch(8)


def made(**options: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **options})
    return model


CALLS: dict[str, Callable[[Any], object]] = {
    "fit": lambda model: model.fit(X, Y, verbose=0),
    "fit of a dataset": lambda model: model.fit(batches(), verbose=0),
    "evaluate": lambda model: model.evaluate(batches(), verbose=0),
    "predict": lambda model: model.predict(X, verbose=0),
    "train_on_batch": lambda model: model.train_on_batch(X, Y),
    "test_on_batch": lambda model: model.test_on_batch(X, Y),
    "compile": lambda model: model.compile("adam", "mse"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_scope_refuses_it_each_time_and_leaves_it_as_it_was(call: str) -> None:
    model = made()
    with sd.MirroredStrategy(devices=2).scope():
        for _ in range(2):
            with pytest.raises(
                FailedPreconditionError, match=f"^{call.split()[0]} was called in strategy.scope.*made outside of every scope"
            ):
                CALLS[call](model)
    assert model.fit(X, Y, verbose=0).history == made().fit(X, Y, verbose=0).history


def test_in_a_scope_it_can_be_called() -> None:
    model = made()
    with sd.MirroredStrategy(devices=2).scope():
        assert model(X).shape == (16, 1)
        np.testing.assert_array_equal(model.predict_on_batch(X), model(X))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: {"optimizer": keras.optimizers.Adam()}, "an optimizer that was made inside"),
        (lambda: {"metrics": [keras.metrics.MeanAbsoluteError()]}, "metrics that were made inside"),
    ],
)
def test_parts_of_a_strategy_are_named(make: Callable[[], dict[str, Any]], what: str) -> None:
    with sd.MirroredStrategy(devices=2).scope():
        parts = make()
    model = made(**parts)
    for _ in range(2):
        with pytest.raises(FailedPreconditionError, match=what):
            model.fit(batches(), verbose=0)
