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


class Doubled(keras.Model):
    """Twice what another model gives."""

    def __init__(self, doubled: Any) -> None:
        super().__init__()
        self.doubled = doubled

    def call(self, x: Any) -> Any:
        return 2.0 * self.doubled(x)


@pytest.mark.parametrize("strategy", [lambda: sd.MirroredStrategy(devices=2), sd.OneDeviceStrategy])
def test_of_nothing_but_layers_of_a_strategy_it_belongs_to_that(strategy: Callable[[], Any]) -> None:
    strategy = strategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="inner"), keras.layers.Dense(1)])
    inner, outer = [np.asarray(layer.kernel) for layer in model.layers]
    looks = keras.Model(model.inputs, [layer.output for layer in model.layers])
    for found, expected in zip(looks.predict(X, verbose=0), (X @ inner, X @ inner @ outer), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(Doubled(model).predict(X, verbose=0), 2.0 * X @ inner @ outer, rtol=1e-4, atol=1e-5)
    trained = keras.Sequential([keras.Input((4,)), model.layers[0]])
    trained.compile(keras.optimizers.SGD(0.1), "mse")
    history = trained.fit(X, np.zeros((16, 3)), epochs=2, batch_size=16, verbose=0).history["loss"]
    assert history[1] < history[0] == pytest.approx(((X @ inner) ** 2).mean(), rel=1e-4)
    assert all(one.simdist_strategy is strategy for one in (looks, trained))


def test_of_layers_of_a_strategy_and_others_it_is_refused() -> None:
    with sd.OneDeviceStrategy().scope():
        inside = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, name="inside")])
    with sd.OneDeviceStrategy().scope():
        other = keras.layers.Dense(1)
        other.build((None, 1))
    plain = keras.layers.Dense(1)
    for layer in (other, plain):
        outside = keras.Sequential([keras.Input((4,)), inside.layers[0], layer])
        with pytest.raises(FailedPreconditionError, match="Make and compile the model inside the scope"):
            outside.predict(X, verbose=0)
