"""Small models and data, and the comparison of three trainings: plain Keras, one device, two replicas."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).random((20, 3), np.float32)
Y = 2 * X.sum(1, keepdims=True)
LABELS = (np.arange(20) % 3 == 0).astype(np.float32)[:, None]
STRATEGIES: dict[str, Callable[[], Any]] = {"one device": sd.OneDeviceStrategy, "mirrored 2": lambda: sd.MirroredStrategy(2)}


def linear(namespace: Any) -> Any:
    model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.01), "mse", weighted_metrics=["mae"])
    return model


def under(strategy: Any, make: Callable[[Any], Any] = linear) -> Any:
    with strategy.scope():
        return make(keras)


def mirrored() -> Any:
    return under(sd.MirroredStrategy(2))


def servers() -> Any:
    return under(sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1})))


def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Four rows; after five batches they begin again."""
    rows = slice(4 * (number % 5), 4 * (number % 5) + 4)
    return X[rows], Y[rows]


def batches(count: int, taken: list[int] | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A generator of batches, which writes down what was taken."""
    for number in range(count):
        if taken is not None:
            taken.append(number)
        yield batch(number)


def agree(data: Callable[[], tuple[Any, ...]], make: Callable[[Any], Any] = linear, **options: Any) -> dict[str, list[float]]:
    """The history of plain Keras, after ours were found to be the same; each training gets data of its own."""
    keyword: Callable[[], dict[str, Any]] = options.pop("keyword", dict)
    options = {"shuffle": False, "verbose": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns at the end of every generator
        expected = make(plain).fit(*data(), **options, **keyword()).history
    for name, strategy in STRATEGIES.items():
        found = under(strategy(), make).fit(*data(), **options, **keyword()).history
        assert list(found) == list(expected), name
        for metric, values in expected.items():
            assert found[metric] == pytest.approx(values, rel=1e-6, abs=1e-6), (name, metric)
    return expected
