"""Keras' loops on parameter servers whose workers have several devices: as on the mirrored devices of one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

ROWS = 19  # the last batch of 6 has one row, and so none for the second replica
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def servers(workers: int = 1, **options: Any) -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": 2}), devices_per_worker=2, **options)


class OwnStep(keras.Model):
    """A model with a train_step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, state: Any, data: Any) -> Any:
        return super().train_step(state, data)


def plain() -> Any:
    return keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dropout(0.0), keras.layers.Dense(1)])


def normalised() -> Any:
    return keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)])


def compiled(strategy: Any, make: Callable[[], Any], **options: Any) -> Any:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make()
        model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"], **options)
    return model


def outcome(strategy: Any, make: Callable[[], Any], rows: int, batch_size: int = 6) -> list[Any]:
    model, x, y = compiled(strategy, make), X[:rows], Y[:rows]
    history = model.fit(x, y, batch_size=batch_size, epochs=2, verbose=0, shuffle=False).history
    evaluated = model.evaluate(x, y, batch_size=batch_size, verbose=0)
    return [history["loss"], history["mae"], evaluated, model.predict(x, batch_size=batch_size, verbose=0), *model.get_weights()]


@pytest.mark.parametrize("make", [plain, OwnStep])
@pytest.mark.sample(2)
def test_fit_evaluate_and_predict_are_those_of_mirrored_devices(make: Callable[[], Any]) -> None:
    for found, expected in zip(outcome(servers(), make, ROWS), outcome(sd.MirroredStrategy(2), make, ROWS), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_moving_averages_are_those_over_the_replicas() -> None:
    # Mirrored devices have an average each, which a prediction may read; here there is one, and it is their mean.
    found, expected = outcome(servers(), normalised, 18), outcome(sd.MirroredStrategy(2), normalised, 18)
    for of_one, of_other in zip([*found[:2], *found[4:]], [*expected[:2], *expected[4:]], strict=True):
        np.testing.assert_allclose(of_one, of_other, rtol=1e-5, atol=1e-6)


def normalised_together() -> Any:
    normalisation = keras.layers.BatchNormalization(momentum=0.7, synchronized=True)
    return keras.Sequential([keras.layers.Dense(4, use_bias=False), normalisation, keras.layers.Dense(1)])


def by_workers_of(**options: Any) -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}, **options), devices_per_worker=2)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "strategy",
    [
        servers,
        lambda: servers(mode="sync"),
        lambda: by_workers_of(engine="in_process"),
        lambda: by_workers_of(engine="in_process", isolated=True),
    ],
    ids=["asynchronous", "in rounds", "without time", "isolated"],
)
def test_a_replica_without_rows_takes_part_in_a_normalisation_over_all_rows(strategy: Callable[[], Any]) -> None:
    # Its gradients are zeros, which need nothing of what the others wait for; they must not come before the moving averages.
    expected = outcome(sd.MirroredStrategy(2), normalised_together, ROWS)
    for found, of_mirrored in zip(outcome(strategy(), normalised_together, ROWS), expected, strict=True):
        np.testing.assert_allclose(found, of_mirrored, rtol=1e-4, atol=1e-5)


class OwnSequential(keras.Sequential):
    """A sequential model with a train_step of its own."""

    def train_step(self, state: Any, data: Any) -> Any:
        logs, state = super().train_step(state, data)
        return {**logs, "ones": keras.ops.mean(keras.ops.ones_like(data[0]))}, state


def own_and_normalised_together() -> Any:
    return OwnSequential(normalised_together().layers)


@pytest.mark.parametrize("devices, rows", [(3, 5), (2, 7)])
@pytest.mark.sample(2)
def test_a_train_step_takes_parts_of_which_some_had_the_size_before(devices: int, rows: int) -> None:
    # Which of its metrics add up is found by tracing it for each size of a part, once.
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), devices_per_worker=devices)
    found, expected = (outcome(each, own_and_normalised_together, rows, 3) for each in (strategy, sd.MirroredStrategy(devices)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_fit_of_several_workers_counts_each_row_once() -> None:
    strategy = servers(workers=2)
    seen = []
    with strategy.scope():
        count = sd.Variable(0.0, synchronization="on_read", aggregation="sum")
    assert float(count) == 0.0
    model = compiled(strategy, lambda: keras.Sequential([keras.layers.Dense(1)]))
    model.fit(
        X, Y, batch_size=6, epochs=1, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_batch_end=lambda n, logs: seen.append(n))]
    )
    assert len(seen) == 4
    assert model.predict(X, batch_size=6, verbose=0).shape == (ROWS, 1)


def test_a_function_makes_the_dataset_of_each_worker() -> None:
    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        assert context.num_replicas_in_sync == 2
        return sd.Dataset.from_tensor_slices((X[:18], Y[:18])).batch(context.get_per_replica_batch_size(6)).repeat()

    creator = sd.DatasetCreator(dataset_fn)
    model, split = (compiled(servers(), lambda: keras.Sequential([keras.layers.Dense(1)])) for _ in range(2))
    model.fit(creator, steps_per_epoch=3, epochs=2, verbose=0)
    split.fit(X[:18], Y[:18], batch_size=6, epochs=2, shuffle=False, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], split.get_weights()[0], rtol=1e-5)
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"steps_per_epoch is missing.*devices_per_worker"):
        model.fit(creator, verbose=0)


def test_an_automatic_number_of_steps_is_refused() -> None:
    model = compiled(servers(), lambda: keras.Sequential([keras.layers.Dense(1)]), steps_per_execution="auto")
    with pytest.raises(sd.errors.InvalidArgumentError, match="no forecast for workers with 2 devices each"):
        model.fit(X, Y, batch_size=6, verbose=0)
