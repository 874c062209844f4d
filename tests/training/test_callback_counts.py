"""Callbacks go on counting after a restore, whichever others stand beside them now; what cannot go on is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((40, 4), np.float32)
Y = X.sum(1, keepdims=True)
found: Any = keras.callbacks


class Interrupted(Exception):
    """Ends a training, as a crash would."""


def stopping(monitor: str = "loss", best: bool = True) -> Any:
    return found.EarlyStopping(monitor, patience=4, min_delta=0.5, restore_best_weights=best)


class Sums(keras.metrics.Metric):
    """A metric that is a vector: the sums of labels and of predictions."""

    def __init__(self) -> None:
        super().__init__(name="sums")
        self.sums = self.add_weight(shape=(2,), initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.sums.assign_add(keras.ops.stack([keras.ops.sum(y_true), keras.ops.sum(y_pred)]))

    def result(self) -> Any:
        return self.sums + 0.0


def fitted(
    directory: Path, callbacks: list[Any], stop_at: int | None = None, metric: Any = lambda: "mae"
) -> tuple[dict[str, list[Any]], list[float]]:
    """The history, and the kernel at the end."""

    def interrupt(epoch: int, logs: Any) -> None:
        if epoch == stop_at:
            raise Interrupted

    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=[metric()])
    given = [found.BackupAndRestore(directory), *callbacks, found.LambdaCallback(on_epoch_begin=interrupt)]
    history = model.fit(X, Y, batch_size=8, shuffle=False, epochs=12, verbose=0, callbacks=given).history
    return history, model.get_weights()[0].ravel().tolist()


def interrupted(directory: Path, callbacks: list[Any]) -> None:
    with pytest.raises(Interrupted):
        fitted(directory, callbacks, 4)


def test_a_training_goes_on_with_another_callback_in_front(tmp_path: Path) -> None:
    """The history, the patience and the best weights are those of the undisturbed training; nothing is warned of."""
    expected = fitted(tmp_path / "whole", [stopping()])
    assert len(expected[0]["loss"]) == 6
    interrupted(tmp_path / "parts", [stopping()])
    assert fitted(tmp_path / "parts", [found.LambdaCallback(), found.TerminateOnNaN(), stopping()]) == expected


def test_a_callback_that_is_gone_and_one_that_is_new_are_named(tmp_path: Path) -> None:
    interrupted(tmp_path, [stopping()])
    with pytest.warns(UserWarning) as warned:
        history, _ = fitted(tmp_path, [stopping("mae")])
    assert len(history["loss"]) > 4, "the history goes on"
    texts = [str(one.message) for one in warned if "backup" in str(one.message)]
    assert len(texts) == 2
    assert "has counts of EarlyStopping('loss'), and fit was given no such callback" in texts[0]
    assert "has no counts of EarlyStopping('mae'), which begins to count anew" in texts[1]


def test_best_weights_that_were_not_saved_are_told_of(tmp_path: Path) -> None:
    interrupted(tmp_path, [stopping(best=False)])
    with pytest.warns(UserWarning, match=r"best value that EarlyStopping\('loss'\) had found, and not its weights"):
        fitted(tmp_path, [stopping()])


def test_best_weights_that_are_no_longer_wanted_are_left_alone(tmp_path: Path) -> None:
    expected = fitted(tmp_path / "whole", [stopping(best=False)])
    interrupted(tmp_path / "parts", [stopping()])
    assert fitted(tmp_path / "parts", [stopping(best=False)]) == expected


def test_vectors_of_a_history_are_arrays_also_of_epochs_before_a_restore(tmp_path: Path) -> None:
    expected, _ = fitted(tmp_path / "whole", [], metric=Sums)
    with pytest.raises(Interrupted):
        fitted(tmp_path / "parts", [], 4, metric=Sums)
    history, _ = fitted(tmp_path / "parts", [], metric=Sums)
    assert len(history["sums"]) == 12
    for vector, wanted in zip(history["sums"], expected["sums"], strict=True):
        assert type(vector) is type(wanted) is np.ndarray and vector.dtype == wanted.dtype
        np.testing.assert_array_equal(vector, wanted)
