"""A backup knows that the training had been stopped, and where its validation data stand."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((16, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1


class Interrupted(Exception):
    """Ends a training, as a crash would."""


class Interrupt(keras.callbacks.Callback):
    """Interrupts the training in the call of a hook with this number, from 0; empty: not at all."""

    def __init__(self, hook: str = "", number: int = 0) -> None:
        super().__init__()
        if hook:
            setattr(self, hook, self._called)
        self.left = number

    def _called(self, *_: Any, **__: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise Interrupted


class StopsAt(keras.callbacks.Callback):
    """Ends the training after so many batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def state_dict(self) -> int:
        return self.left

    def load_state_dict(self, state: int) -> None:
        self.left = state

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        if not self.left:
            self.model.stop_training = True


def strategies() -> dict[str, Any]:
    return {
        "mirrored": lambda: sd.MirroredStrategy(2),
        "server": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})),
    }


def fitted(directory: Path, strategy: str, callbacks: list[Any], save_freq: Any = "epoch", **options: Any) -> Any:
    with strategies()[strategy]().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    given = [keras.callbacks.BackupAndRestore(str(directory), save_freq), *callbacks]
    history = model.fit(X, Y, batch_size=4, epochs=6, verbose=0, callbacks=given, **options)
    return history.history, [w.tolist() for w in model.get_weights()], int(model.optimizer.iterations), model.stop_training


@pytest.mark.parametrize("strategy", ["mirrored", "server"])
def test_a_training_that_was_stopped_is_over_after_a_restore(strategy: str, tmp_path: Path) -> None:
    def stop() -> Any:
        return keras.callbacks.EarlyStopping("loss", patience=1, min_delta=100.0)

    expected = fitted(tmp_path / "whole", strategy, [stop(), Interrupt()])
    assert len(expected[0]["loss"]) == 2
    with pytest.raises(Interrupted):
        fitted(tmp_path / "parts", strategy, [stop(), Interrupt("on_train_end", 0)])
    assert fitted(tmp_path / "parts", strategy, [stop(), Interrupt()]) == expected


@pytest.mark.parametrize("strategy", ["mirrored", "server"])
def test_a_training_that_was_stopped_within_an_epoch_ends_with_it(strategy: str, tmp_path: Path) -> None:
    expected = fitted(tmp_path / "whole", strategy, [StopsAt(6), Interrupt()], 1)
    assert expected[2] == 6, "the second batch of the second epoch"
    with pytest.raises(Interrupted):
        fitted(tmp_path / "parts", strategy, [StopsAt(6), Interrupt("on_epoch_end", 1)], 1)
    assert fitted(tmp_path / "parts", strategy, [StopsAt(6), Interrupt()], 1) == expected


@pytest.mark.sample
@pytest.mark.parametrize("save_freq", ["epoch", 3])
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("shared", [False, True])
def test_validation_data_that_are_shuffled_go_on_where_they_were(save_freq: Any, seed: int | None, shared: bool, tmp_path: Path) -> None:
    def fit(directory: str, interrupt: Interrupt) -> Any:
        rows = sd.Dataset.from_tensor_slices((X, Y)).shuffle(16, seed=seed)
        x = {"x": rows.batch(4), "y": None, "batch_size": None} if shared else {"x": X, "y": Y, "batch_size": 4}
        with sd.MirroredStrategy(2).scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(keras.optimizers.SGD(0.1), "mse")
        rate = keras.callbacks.ReduceLROnPlateau("val_loss", patience=1, min_delta=0.01)
        given = [keras.callbacks.BackupAndRestore(str(tmp_path / directory), save_freq), rate, interrupt]
        validation: Any = {"validation_data": rows.batch(4), "validation_steps": 2}
        return model.fit(**x, epochs=4, verbose=0, shuffle=None if shared else False, callbacks=given, **validation).history

    expected = fit("whole", Interrupt())
    assert len(set(expected["val_loss"])) == 4
    with pytest.raises(Interrupted):
        fit("parts", Interrupt("on_epoch_begin", 2))
    assert fit("parts", Interrupt()) == expected


def nested(namespace: Any, callbacks: Any, stop_in: int | None = None) -> Any:
    """A training that a callback goes on with, in a fit of its own after each epoch; the losses of both."""
    model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    inner: list[float] = []

    def fit(epoch: int, logs: Any) -> None:
        if epoch == stop_in:
            raise Interrupted
        inner.append(model.fit(X[:8], Y[:8], batch_size=4, shuffle=False, verbose=0).history["loss"][0])

    given = [*callbacks, keras.callbacks.LambdaCallback(on_epoch_end=fit)]
    history = model.fit(X, Y, batch_size=4, shuffle=False, epochs=4, verbose=0, callbacks=given)
    return history.history["loss"], inner, model.get_weights()[0].ravel().tolist()


def test_a_fit_in_a_callback_leaves_the_backup_of_the_other_alone(tmp_path: Path) -> None:
    close = functools.partial(pytest.approx, rel=1e-5)
    expected = nested(plain, [])
    with sd.MirroredStrategy(2).scope():
        assert nested(keras, [keras.callbacks.BackupAndRestore(tmp_path / "whole")]) == tuple(map(close, expected))
        with pytest.raises(Interrupted):
            nested(keras, [keras.callbacks.BackupAndRestore(tmp_path / "parts")], 2)
        losses, inner, weights = nested(keras, [keras.callbacks.BackupAndRestore(tmp_path / "parts")])
    assert losses == close(expected[0]) and inner == close(expected[1][2:]) and weights == close(expected[2])


@pytest.mark.parametrize("strategy", [None, "mirrored", "server"])
def test_a_batch_that_a_callback_trains_leaves_the_end_of_the_training_alone(strategy: str | None) -> None:
    def trained(namespace: Any) -> int:
        model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")

        def stop(epoch: int, logs: Any) -> None:
            model.stop_training = epoch == 1
            model.train_on_batch(X[:4], Y[:4])

        model.fit(X, Y, epochs=4, batch_size=4, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=stop)])
        return int(model.optimizer.iterations)

    if strategy is None:
        assert trained(plain) == 10
    else:
        with strategies()[strategy]().scope():
            assert trained(keras) == 10
