"""A small regression problem that the tests of strategies share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

Build = Callable[..., Any]


@pytest.fixture(scope="session")
def regression() -> sd.Dataset:
    """Forty rows in batches of eight."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4)).astype(np.float32)
    return sd.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(8)


@pytest.fixture(scope="session")
def build() -> Build:
    """Makes a compiled model under a strategy, always with the same weights."""

    def make(strategy: Any, optimizer: Any = None, layers: list[Any] | None = None) -> Any:
        def uniform(seed: int) -> Any:
            return keras.initializers.GlorotUniform(seed=seed)

        with strategy.scope():
            default = [
                keras.layers.Dense(6, activation="tanh", kernel_initializer=uniform(1)),
                keras.layers.Dense(1, kernel_initializer=uniform(2)),
            ]
            model = keras.Sequential([keras.Input((4,)), *(default if layers is None else layers)])
            model.compile(optimizer() if optimizer is not None else keras.optimizers.SGD(0.05), "mse")
        return model

    return make


def bytes_sent(cluster: sd.Cluster) -> float:
    """Bytes that all devices together have put on the wire."""
    return sum(lane["bytes_sent"] for lane in cluster.trace.summary()["lanes"].values())


def weights(model: Any) -> list[np.ndarray]:
    return [np.asarray(weight) for weight in model.get_weights()]
