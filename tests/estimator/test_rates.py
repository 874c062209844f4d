"""The learning rate of a training that goes on in a directory: the one that is given, and not that of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from estimators import X, Y, config, input_fn, regressor, weights
from simdist import keras

# Plain Keras turns its variables into numpy arrays in a way that numpy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": lambda: None,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
}


def by_numpy(rates: list[float], momentum: float) -> np.ndarray:
    """Weights and bias after a step of all rows for each rate; the momentum goes on."""
    rows = np.column_stack([X, np.ones(len(X))]).astype(np.float64)
    found, velocity = np.zeros(4), np.zeros(4)
    for rate in rates:
        velocity = momentum * velocity - rate * 2 * rows.T @ (rows @ found - Y) / len(rows)
        found += velocity
    return found


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.sample(2)
def test_a_new_rate_counts_and_the_momentum_goes_on(tmp_path: Path, strategy: Callable[[], Any]) -> None:
    rates = [0.1, 0.01, 0.2]
    for rate in rates:
        own = strategy()
        batch_size = 48 // (own.num_replicas_in_sync if own else 1)
        optimizer = keras.optimizers.SGD(rate, momentum=0.5)
        estimator = regressor(tmp_path, optimizer, train_distribute=own).train(input_fn(batch_size), steps=2)
    assert weights(estimator) == pytest.approx(by_numpy([rate for rate in rates for _ in range(2)], 0.5), abs=1e-5)


def test_a_new_rate_counts_inside_of_a_loss_scale(tmp_path: Path) -> None:
    for rate in (0.1, 0.0):
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(rate), initial_scale=4.0)
        estimator = regressor(tmp_path, optimizer).train(input_fn(48), steps=1)
    assert weights(estimator) == pytest.approx(by_numpy([0.1], 0.0), abs=1e-5)


def test_a_schedule_goes_on_where_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.1, 0.01])  # two steps are done with the first
        estimator = regressor(tmp_path, keras.optimizers.SGD(schedule)).train(input_fn(48), steps=3)
    assert weights(estimator) == pytest.approx(by_numpy([0.1] * 3 + [0.01] * 3, 0.0), abs=1e-5)


def test_a_new_rate_counts_on_every_launched_main(tmp_path: Path) -> None:
    def main() -> None:
        for rate in (0.1, 0.01):
            options = config(tmp_path, train_distribute=sd.MultiWorkerMirroredStrategy)
            columns = [sd.feature_column.numeric_column("x", shape=3)]
            estimator = sd.estimator.LinearRegressor(columns, optimizer=keras.optimizers.SGD(rate), config=options)
            estimator.train(input_fn(48), max_steps=1 if rate == 0.1 else 2)

    sd.Cluster({"worker": 2}).launch(main).join()
    assert weights(regressor(tmp_path)) == pytest.approx(by_numpy([0.1, 0.01], 0.0), abs=1e-5)


def test_a_rate_takes_the_place_of_a_schedule_and_a_schedule_that_of_a_rate(tmp_path: Path) -> None:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.1, 0.01])
    for rate in (schedule, 0.2, schedule):
        estimator = regressor(tmp_path, keras.optimizers.SGD(rate, momentum=0.5)).train(input_fn(48), steps=2)
    assert weights(estimator) == pytest.approx(by_numpy([0.1] * 2 + [0.2] * 2 + [0.01] * 2, 0.5), abs=1e-5)


def test_a_slot_that_the_checkpoint_lacks_is_named(tmp_path: Path) -> None:
    regressor(tmp_path, keras.optimizers.SGD(0.1)).train(input_fn(48), steps=1)
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"no value for sgd\w*/\S*weights_momentum, .*of another model"):
        regressor(tmp_path, keras.optimizers.SGD(0.1, momentum=0.5)).train(input_fn(48), steps=1)
