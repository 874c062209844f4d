"""Callbacks under strategies: those that can do their work do it, the others are refused before anything runs; who acts among mains."""

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
Y = X.sum(1, keepdims=True) * 3 + 1


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
    "Keras' own BackupAndRestore": (lambda: plain.callbacks.BackupAndRestore("somewhere"), "from simdist import keras"),
    "Keras' own TensorBoard": (lambda: plain.callbacks.TensorBoard("logs"), "from simdist import keras"),
    "a list of Keras": (
        lambda: keras.callbacks.CallbackList([plain.callbacks.BackupAndRestore("somewhere")], model=model_of()),
        "from simdist import keras",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_callbacks_that_cannot_do_their_work_are_refused(kind: str) -> None:
    make, words = REFUSED[kind]
    with pytest.raises(sd.errors.InvalidArgumentError, match=words):
        model_of().fit(X, Y, verbose=0, callbacks=make())


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
    made.callbacks.append(plain.callbacks.BackupAndRestore("somewhere"))
    with pytest.raises(sd.errors.InvalidArgumentError, match="from simdist import keras"):
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


def test_names_of_simdist_show_our_classes_and_all_others_of_keras() -> None:
    ours = {"BackupAndRestore", "ModelCheckpoint", "ProgbarLogger", "SwapEMAWeights", "TensorBoard"}
    names = {name for name in dir(plain.callbacks) if name[0].isupper()}
    assert {name for name in names if getattr(keras.callbacks, name) is not getattr(plain.callbacks, name)} == ours <= names
    assert all(issubclass(getattr(keras.callbacks, name), getattr(plain.callbacks, name)) for name in ours)


def launched(callbacks: Callable[[], list[Any]], workers: int = 3) -> dict[str, Any]:
    """What the mains of so many workers return, each with callbacks of its own: the histories."""

    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1), keras.layers.BatchNormalization()])
            model.compile(keras.optimizers.SGD(0.1), "mse")
        return model.fit(X, Y, batch_size=6, epochs=3, verbose=0, validation_data=(X, Y), callbacks=callbacks()).history

    run = sd.Cluster({"worker": workers}).launch(main)
    run.join()
    return dict(run.results)


class Posted(keras.callbacks.RemoteMonitor):
    """A monitor that sends nothing."""

    sent: list[int]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.sent.append(epoch)


def test_of_mains_each_calls_its_callbacks_and_what_is_the_chiefs_is_done_once(tmp_path: Path) -> None:
    called: list[list[tuple[str, int]]] = []
    sent: list[int] = []

    def callbacks() -> list[Any]:
        calls: list[tuple[str, int]] = []
        called.append(calls)
        monitor = Posted()
        monitor.sent = sent
        found = keras.callbacks
        return [
            found.CSVLogger(str(tmp_path / "log.csv")),
            monitor,
            found.LambdaCallback(on_epoch_end=lambda epoch, logs: calls.append(("epoch", epoch))),
            found.LambdaCallback(on_train_batch_end=lambda batch, logs: calls.append(("batch", batch))),
            found.EarlyStopping("loss", min_delta=100.0, patience=1, restore_best_weights=True),
            found.ReduceLROnPlateau("loss", min_delta=100.0, patience=1),
        ]

    results = launched(callbacks)
    assert results["worker:0"] == results["worker:1"] == results["worker:2"]
    assert called == [[("batch", 0), ("batch", 1), ("epoch", 0), ("batch", 0), ("batch", 1), ("epoch", 1)]] * 3
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "0", "1"]
    assert sent == [0, 1]


def test_keras_own_checkpoints_are_refused_where_all_mains_would_write_them(tmp_path: Path) -> None:
    with pytest.raises(sd.errors.SimdistError, match="from simdist import keras"):
        launched(lambda: [plain.callbacks.ModelCheckpoint(str(tmp_path / "x.keras"))])
    assert list(tmp_path.iterdir()) == []
