"""Datasets for models that belong to no strategy: losses, metrics and outputs are those of the same model under one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def linear(metrics: Any = ("mae",)) -> keras.Model:
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(plain.optimizers.SGD(0.1), "mse", metrics=list(metrics))
    return model


def rows(batch: int = 8) -> sd.Dataset:
    return sd.Dataset.from_tensor_slices((X, Y)).batch(batch)


def one_device() -> keras.Model:
    with sd.OneDeviceStrategy().scope():
        return linear()


DATASETS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "whole": (rows, {"epochs": 2}),
    "shuffled": (lambda: sd.Dataset.from_tensor_slices((X, Y)).shuffle(20, seed=0).batch(8), {"epochs": 3}),
    "endless": (lambda: rows().repeat(), {"epochs": 3, "steps_per_epoch": 2}),
    "read once": (lambda: sd.Dataset.from_iterable((X[i : i + 5], Y[i : i + 5]) for i in (0, 5, 10)), {"steps_per_epoch": 3}),
    "weighted": (lambda: sd.Dataset.from_tensor_slices((X, Y, np.arange(20.0))).batch(8), {"epochs": 2}),
    "a creator": (lambda: sd.DatasetCreator(lambda context: rows(context.get_per_replica_batch_size(8)).repeat()), {"steps_per_epoch": 5}),
    "validated": (rows, {"epochs": 2, "validation_data": rows(5)}),
    "validated endlessly": (rows, {"epochs": 2, "validation_data": rows(5).repeat(), "validation_steps": 2}),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", DATASETS)
def test_the_history_is_that_of_one_device(name: str) -> None:
    make, options = DATASETS[name]
    model, under_strategy = linear(), one_device()
    history = model.fit(make(), verbose=0, **options).history
    expected = under_strategy.fit(make(), verbose=0, **options).history
    assert history.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(history[key], values, rtol=1e-5, err_msg=key)
    for weights, others in zip(model.weights, under_strategy.weights, strict=True):
        np.testing.assert_allclose(weights.value, others.value, rtol=1e-5)


def test_evaluation_and_prediction_are_those_of_arrays() -> None:
    model = linear()
    assert model.evaluate(rows(), verbose=0) == pytest.approx(model.evaluate(X, Y, batch_size=8, verbose=0))
    np.testing.assert_allclose(model.predict(rows(), verbose=0), model.predict(X, verbose=0), rtol=1e-6, atol=1e-6)
    unbuilt = linear()
    np.testing.assert_allclose(
        unbuilt.predict(sd.Dataset.from_tensor_slices(X).batch(6), verbose=0), model.predict(X, verbose=0), rtol=1e-6
    )


def test_what_a_strategy_has_distributed_is_evaluated_as_the_plain_dataset() -> None:
    distributed = sd.MirroredStrategy(2).distribute_dataset(rows())
    model = linear()
    assert model.evaluate(distributed, verbose=0) == model.evaluate(rows(), verbose=0)
    with pytest.raises(sd.errors.FailedPreconditionError, match="outside of every scope"):
        model.fit(distributed, verbose=0)


@pytest.mark.parametrize("name", ["y", "sample_weight"])
def test_what_stands_beside_a_dataset_is_refused(name: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=f"{name} was given together with a dataset"):
        linear().fit(rows(), verbose=0, **{name: Y})
    with pytest.raises(sd.errors.InvalidArgumentError, match="batch_size was given"):
        linear().evaluate(rows(), batch_size=3, verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match="shuffle was given"):
        linear().fit(rows(), shuffle=True, verbose=0)


def test_a_dataset_without_an_end_or_without_rows_is_refused() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="steps_per_epoch is missing"):
        linear().fit(rows().repeat(), verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match="no end"):
        linear().evaluate(rows().repeat(), verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match="no data"):
        linear().fit(rows().take(0), verbose=0)


def test_other_data_is_that_of_keras() -> None:
    history = linear().fit(X, Y, 8, 2, 0, shuffle=False).history
    expected = linear().fit(rows(), epochs=2, verbose=0).history
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)
    with pytest.raises(TypeError, match="unexpected keyword"):
        linear().fit(X, Y, verbosity=0)
