"""`fit` with parameter servers that die and come back: what callbacks read and save is there, and is that of the run without the crash."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import UnavailableError

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((48, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1
MOMENTS = 20


class Weights(keras.callbacks.Callback):
    """Notes the weights after each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bytes] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(b"".join(value.tobytes() for value in self.model.get_weights()))


class Evaluation(keras.callbacks.Callback):
    """Evaluates the model after each epoch, which takes virtual time."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.evaluate(X, Y, batch_size=8, verbose=0)


def trained(
    crash_s: float | None,
    recovery: Any = "replica",
    of_batches: bool = False,
    first: Any = None,
    mode: Any = "sync",
) -> tuple[Any, sd.Cluster, float]:
    """What a training has come to whose callbacks read and save weights, where, and when it ended."""
    directory, cluster = Path(mkdtemp()), sd.Cluster({"worker": 2, "ps": 2})
    with sd.ParameterServerStrategy(cluster, recovery=recovery, mode=mode).scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile("adam", "mse")
    if crash_s is not None:
        cluster.faults.crash("ps:0", at=crash_s)
    weights = Weights()
    saving = keras.callbacks.ModelCheckpoint(directory / "{epoch}.weights.h5", save_weights_only=True)
    best = keras.callbacks.EarlyStopping("loss", patience=5, restore_best_weights=True)
    callbacks = [first] if first is not None else []
    callbacks += [best, saving, keras.callbacks.BackupAndRestore(directory / "backup", save_freq=4), *([weights] if of_batches else [])]
    if hasattr(first, "filepath"):
        setattr(first, "filepath", str(directory / "first.weights.h5"))  # noqa: B010
    history = model.fit(X, Y, batch_size=8, epochs=3, verbose=0, validation_data=(X, Y), callbacks=callbacks).history
    end_s = cluster.now
    sd.sleep(3.0)  # until all servers are back
    values = [np.asarray(value).tobytes() for value in (*model.variables, *model.optimizer.variables)]
    return (history, values, weights.seen, sorted(path.name for path in directory.iterdir())), cluster, end_s


@cache
def undisturbed(of_batches: bool) -> tuple[Any, sd.Cluster, float]:
    return trained(None, of_batches=of_batches)


@pytest.mark.parametrize("moment", sampled(range(MOMENTS), [18]))
@pytest.mark.parametrize("of_batches", [False, True])
def test_a_server_that_dies_at_any_moment_of_fit_changes_nothing(moment: int, of_batches: bool) -> None:
    expected, _, end_s = undisturbed(of_batches)
    assert trained((moment + 0.5) * end_s / MOMENTS, of_batches=of_batches)[0] == expected


@pytest.mark.parametrize("file", ["backup-1", "1.weights.h5"])
@pytest.mark.sample(2)
def test_a_file_is_saved_again_where_a_server_dies_that_has_a_part_of_it(file: str) -> None:
    expected, cluster, _ = undisturbed(False)
    (gathered,) = [span for span in cluster.trace.spans.where(category="checkpoint") if span.name == f"gather {file}"]
    assert trained((gathered.start_s + gathered.end_s) / 2)[0] == expected


def test_what_nobody_has_a_copy_of_is_not_awaited() -> None:
    with pytest.raises(UnavailableError, match="ps:0"):
        trained(0.9 * undisturbed(False)[2], recovery="raise")


def test_callbacks_read_variables_after_one_during_which_a_server_has_died() -> None:
    expected, cluster, _ = trained(None, first=keras.callbacks.ModelCheckpoint("first.weights.h5", save_weights_only=True))
    (written, *_) = [span for span in cluster.trace.spans.where(category="checkpoint") if span.name == "write first.weights.h5"]
    again = keras.callbacks.ModelCheckpoint("first.weights.h5", save_weights_only=True)
    assert trained((written.start_s + written.end_s) / 2, first=again)[0] == expected


def test_callbacks_read_variables_after_one_at_whose_last_evaluation_a_server_has_died() -> None:
    _, cluster, _ = trained(None, first=Evaluation(), mode="async")
    (gathered,) = [span for span in cluster.trace.spans.where(category="checkpoint") if span.name == "gather 1.weights.h5"]
    evaluated_s = max(span.end_s for span in cluster.trace.spans.where(category="closure") if span.end_s <= gathered.start_s)
    (history, *_), cluster, _ = trained((evaluated_s + gathered.start_s) / 2, first=Evaluation(), mode="async")
    assert len(history["loss"]) == 3 and len(cluster.trace.instants.where(category="crash")) == 1
