"""Models that say that they are built before their layers have variables, and epochs that are stopped before they begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
STRATEGIES: dict[str, Callable[[], sd.Strategy]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "parameter servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1})),
}


class Lazy(keras.Model):
    """A model whose layer makes its variables in the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")
        self.built = True

    def call(self, x: Any) -> Any:
        return self.dense(x)


@pytest.mark.parametrize("name", STRATEGIES)
def test_layers_are_made_in_the_scope_by_predict(name: str) -> None:
    with STRATEGIES[name]().scope():
        model = Lazy()
        model.compile(keras.optimizers.SGD(0.0), "mse")
    np.testing.assert_allclose(model.predict(X, verbose=0), X.sum(1, keepdims=True), rtol=1e-6, atol=1e-6)
    history = model.fit(X, X[:, :1], batch_size=6, verbose=0).history
    assert history["loss"] == pytest.approx([float(np.mean((X.sum(1) - X[:, 0]) ** 2))], rel=1e-6)
    assert len(model.trainable_variables) == 2


class Stop(keras.callbacks.Callback):
    """Stops each epoch when it begins."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.model.stop_training = True


@pytest.mark.parametrize("name", ["one device", "mirrored"])
def test_an_epoch_that_is_stopped_when_it_begins_has_one_batch(name: str) -> None:
    with STRATEGIES[name]().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    history = model.fit(X, X[:, :1], batch_size=2, shuffle=False, epochs=3, verbose=0, callbacks=[Stop()]).history
    assert history["loss"] == pytest.approx([float(np.mean((X[:2].sum(1) - X[:2, 0]) ** 2))], rel=1e-6)
    assert int(model.optimizer.iterations) == 1
