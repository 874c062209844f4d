"""Models whose outputs for a row depend on the other rows of its batch: where shapes show it, results are those of plain Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

ops = plain.ops
X = np.random.default_rng(0).random((7, 3), np.float32)


def against_each_other(t: Any) -> Any:
    return ops.matmul(t, ops.transpose(t))


def pairs(t: Any) -> Any:
    return ops.reshape(against_each_other(t), (-1,))


def mean(t: Any) -> Any:
    return ops.mean(t, axis=0, keepdims=True)


def twice(t: Any) -> Any:
    return ops.reshape(ops.concatenate([t, 2 * t], axis=1), (-1, 3))


STRATEGIES: dict[str, Callable[[], Any]] = {
    "replicas": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), devices_per_worker=2),
}


class OfMasks(plain.losses.Loss):
    """Of a similarity matrix, whatever its targets are."""

    def call(self, y: Any, y_pred: Any) -> Any:
        return ops.mean(ops.square(y_pred), axis=-1)


def model_of(namespace: Any, of: Callable[[Any], Any]) -> Any:
    model = namespace.Sequential([plain.Input((3,)), plain.layers.Lambda(of)])
    model.compile("sgd", OfMasks())
    return model


def in_scope(strategy: str, of: Callable[[Any], Any]) -> Any:
    with STRATEGIES[strategy]().scope():
        return model_of(keras, of)


@pytest.mark.sample
@pytest.mark.parametrize("of", [against_each_other, pairs, mean, twice])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_prediction_has_the_shape_and_the_values_of_plain_keras(strategy: str, of: Callable[[Any], Any]) -> None:
    model, expected = in_scope(strategy, of), model_of(plain, of)
    for rows, batch_size in ((4, 4), (4, 2), (1, 4)):
        found, wanted = (one.predict(X[:rows], batch_size=batch_size, verbose=0) for one in (model, expected))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_evaluation_counts_what_rows_are_against_all_rows_of_the_batch(strategy: str) -> None:
    model, expected = in_scope(strategy, against_each_other), model_of(plain, against_each_other)
    found, wanted = (one.evaluate(X, X, batch_size=4, verbose=0) for one in (model, expected))
    assert found == pytest.approx(wanted, rel=1e-6)


def test_rows_that_do_not_know_of_each_other_are_shared_among_the_replicas() -> None:
    seen: list[int] = []

    def noted(t: Any) -> Any:
        seen.append(t.shape[0])
        return twice(t)

    model = in_scope("replicas", noted)
    model.predict(X[:4], batch_size=4, verbose=0)
    assert seen[-1] == 2
