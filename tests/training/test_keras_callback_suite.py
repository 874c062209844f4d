"""What the tests of Keras demand of its callbacks, demanded under strategies.

Source: Keras 3, keras/src/callbacks/*_test.py; each test names the one whose behaviour it states in words of its own.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beside_keras import STRATEGIES
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((16, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True)
OPTIONS: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0}


@pytest.fixture(params=STRATEGIES)
def model(request: pytest.FixtureRequest) -> Any:
    with STRATEGIES[request.param]().scope():
        found = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        found.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    return found


def with_epochs(callback: Callable[[int], Any]) -> Any:
    return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: callback(epoch))


@pytest.mark.sample(2)
def test_weights_are_those_of_the_epoch_when_it_ends(model: Any) -> None:
    """callback_test: test_model_state_is_current_on_epoch_end"""
    seen: list[tuple[int, float]] = []
    model.fit(
        X,
        Y,
        epochs=2,
        callbacks=[with_epochs(lambda _: seen.append((int(model.optimizer.iterations), model.get_weights()[0].sum())))],
        **OPTIONS,
    )
    assert [steps for steps, _ in seen] == [2, 4] and seen[0][1] != seen[1][1]


def test_functions_become_hooks(model: Any) -> None:
    """lambda_callback_test: test_lambda_callback_with_batches, test_lambda_callback_during_prediction"""
    calls: list[str] = []

    def noting(name: str) -> Any:
        return lambda *args, **options: calls.append(name)

    names = ["on_train_begin", "on_epoch_begin", "on_train_batch_begin", "on_train_batch_end", "on_epoch_end", "on_train_end"]
    callback = keras.callbacks.LambdaCallback(**{name: noting(name) for name in names}, on_predict_end=noting("on_predict_end"))
    model.fit(X, Y, callbacks=[callback], **OPTIONS)
    model.predict(X, verbose=0, callbacks=[callback])
    assert calls == [*names[:2], *names[2:4] * 2, *names[4:], "on_predict_end"]


@pytest.mark.parametrize(("patience", "epochs"), [(0, 2), (1, 2), (2, 3)])
def test_training_stops_when_nothing_gets_better_for_some_epochs(model: Any, patience: int, epochs: int) -> None:
    """early_stopping_test: test_early_stopping_patience"""
    model.optimizer.learning_rate = 0.0
    stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=patience)
    assert len(model.fit(X, Y, epochs=9, callbacks=[stopping], **OPTIONS).epoch) == epochs


def test_the_weights_of_the_best_epoch_are_restored(model: Any) -> None:
    """early_stopping_test: test_early_stopping_final_weights_when_restoring_model_weights"""
    kept: list[list[np.ndarray]] = []

    def worsening(epoch: int) -> None:
        kept.append(model.get_weights())
        if epoch == 1:
            model.set_weights([weight + 9.0 for weight in kept[-1]])

    stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=1, restore_best_weights=True)
    history = model.fit(X, Y, epochs=9, callbacks=[stopping, with_epochs(worsening)], **OPTIONS)
    assert len(history.epoch) == 3
    for weight, best in zip(model.get_weights(), kept[1], strict=True):
        np.testing.assert_array_equal(weight, best)


def test_a_schedule_of_epochs_sees_the_rate_of_before(model: Any) -> None:
    """learning_rate_scheduler_test: test_schedule_dependent_on_previous_learning_rate, test_learning_rate_in_history"""
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    rates = model.fit(X, Y, epochs=3, callbacks=[schedule], **OPTIONS).history["learning_rate"]
    assert rates == pytest.approx([0.05, 0.025, 0.0125])
    assert float(np.asarray(model.optimizer.learning_rate)) == pytest.approx(0.0125)


def test_a_plateau_lowers_the_rate(model: Any) -> None:
    """reduce_lr_on_plateau_test: test_reduces_lr_with_model_fit"""
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, factor=0.1, min_delta=100.0)
    model.fit(X, Y, epochs=2, callbacks=[plateau], **OPTIONS)
    assert float(np.asarray(model.optimizer.learning_rate)) == pytest.approx(0.01)


def test_losses_are_written_line_by_line_and_appended(model: Any, tmp_path: Path) -> None:
    """csv_logger_test: test_CSVLogger"""
    path = tmp_path / "log.csv"
    for append in (False, True):
        model.fit(X, Y, epochs=2, callbacks=[keras.callbacks.CSVLogger(str(path), append=append)], **OPTIONS)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1", "0", "1"]
    assert list(rows[0])[:3] == ["epoch", "loss", "mae"] and all(float(row["loss"]) > 0 for row in rows)


def test_a_checkpoint_keeps_the_best_epoch_and_loads_into_the_model(model: Any, tmp_path: Path) -> None:
    """model_checkpoint_test: test_model_checkpoint_options, test_model_checkpoint_loading"""
    path = str(tmp_path / "best.weights.h5")
    kept = keras.callbacks.ModelCheckpoint(path, monitor="loss", save_best_only=True, save_weights_only=True)
    weights: list[list[np.ndarray]] = []
    raised = keras.callbacks.LearningRateScheduler(lambda epoch: 0.05 if epoch < 2 else 30.0)
    noting = with_epochs(lambda _: weights.append(model.get_weights()))
    losses = model.fit(X, Y, epochs=4, callbacks=[raised, kept, noting], **OPTIONS).history["loss"]
    model.load_weights(path)
    for weight, best in zip(model.get_weights(), weights[int(np.argmin(losses))], strict=True):
        np.testing.assert_array_equal(weight, best)
