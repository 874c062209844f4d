"""Callbacks under strategies: those that can do their work do it, the others are refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((12, 3), np.float32)
Y = X.sum(1, keepdims=True)


def model_of(namespace: Any = keras, rate: float = 0.1) -> Any:
    with sd.MirroredStrategy(2).scope():
        model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(rate), "mse")
    return model


def plain_model() -> Any:
    model = plain.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def nothing(*args: Any, **options: Any) -> None:
    """Does nothing."""


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "backup": (lambda: keras.callbacks.BackupAndRestore("somewhere"), "ModelCheckpoint"),
    "averages": (lambda: keras.callbacks.SwapEMAWeights(), "use_ema"),
    "each batch": (lambda: keras.callbacks.TensorBoard("logs", update_freq="batch"), "update_freq"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_callbacks_that_cannot_do_their_work_are_refused(kind: str) -> None:
    make, words = REFUSED[kind]
    with pytest.raises(sd.errors.InvalidArgumentError, match=words):
        model_of().fit(X, Y, verbose=0, callbacks=make())


def test_tensorboard_says_that_it_needs_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"TensorFlow.*to_tensorboard"):
        model_of().fit(X, Y, verbose=0, callbacks=[keras.callbacks.TensorBoard(str(tmp_path))])


def test_something_that_is_no_callback_is_refused() -> None:
    with pytest.raises(TypeError, match="function"):
        model_of().fit(X, Y, verbose=0, callbacks=[nothing])


def test_callbacks_of_epochs_do_what_they_do_in_keras(tmp_path: Path) -> None:
    histories: list[dict[str, list[float]]] = []
    for name, model in (("ours", model_of()), ("plain", plain_model())):
        found = keras.callbacks
        callbacks = [
            found.ModelCheckpoint(str(tmp_path / f"{name}.{{epoch}}.weights.h5"), save_weights_only=True),
            found.CSVLogger(str(tmp_path / f"{name}.csv")),
            found.LearningRateScheduler(lambda epoch, rate: rate * (0.5 if epoch else 1.0)),
            found.ReduceLROnPlateau(monitor="loss", patience=1, min_delta=10.0, factor=0.1),
            found.EarlyStopping(monitor="val_loss", patience=1, min_delta=10.0, restore_best_weights=True),
            found.TerminateOnNaN(),
        ]
        options: dict[str, Any] = {"epochs": 9, "batch_size": 5, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
        histories.append(model.fit(X, Y, callbacks=callbacks, **options).history)
    assert len(histories[0]["loss"]) == len(histories[1]["loss"]) < 9
    for name, values in histories[1].items():
        assert histories[0][name] == pytest.approx(values, rel=1e-5)
    assert len(list(tmp_path.glob("ours.*.h5"))) == len(list(tmp_path.glob("plain.*.h5")))
    assert (tmp_path / "ours.csv").read_text().splitlines()[0] == (tmp_path / "plain.csv").read_text().splitlines()[0]


def test_terminate_on_nan_ends_training_after_the_batch_without_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    watch = keras.callbacks.TerminateOnNaN()
    model = model_of()
    history = model.fit(X, Y * np.nan, batch_size=4, epochs=3, verbose=0, callbacks=[watch]).history
    assert len(history["loss"]) == int(model.optimizer.iterations) == 1
    assert "Invalid loss" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="NaN or Inf"):
        model_of().fit(X, Y * np.nan, epochs=3, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN(raise_error=True)])
    with pytest.raises(sd.errors.InvalidArgumentError, match="loss of epoch 1"):
        model_of().fit(X, Y * np.nan, epochs=3, verbose=0)


def test_a_list_of_keras_is_used_as_it_is_and_checked() -> None:
    model = model_of()
    made = keras.callbacks.CallbackList([], add_history=True, model=model, epochs=1, steps=1, verbose=0)
    assert model.fit(X, Y, verbose=0, callbacks=made) is made._history
    made.callbacks.append(keras.callbacks.SwapEMAWeights())
    with pytest.raises(sd.errors.InvalidArgumentError, match="use_ema"):
        model.fit(X, Y, verbose=0, callbacks=made)


def test_validation_tells_callbacks_of_fit_what_keras_tells_them() -> None:
    told: list[list[Any]] = []
    for model in (model_of(), plain_model()):
        seen: list[Any] = []
        note = keras.callbacks.LambdaCallback(
            on_test_batch_end=lambda batch, logs, seen=seen: seen.append((batch, round(logs["loss"], 4))),
            on_test_end=lambda logs, seen=seen: seen.append(round(logs["loss"], 4)),
        )
        model.fit(X, Y, shuffle=False, verbose=0, callbacks=[note], validation_data=(X, Y), validation_batch_size=8)
        told.append(seen)
    assert told[0] == told[1]
    assert len(told[0]) == 3
