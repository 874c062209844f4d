"""Checkpoints of fit: when, under which name and by which main they are written, and that they are whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((12, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "central storage": lambda: sd.CentralStorageStrategy(),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2)),
    "rounds": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), mode="sync"),
}
OPTIONS: dict[str, Any] = {"epochs": 3, "batch_size": 4, "shuffle": False, "verbose": 0}


def model_of(namespace: Any = keras) -> Any:
    layers = [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones"), keras.layers.BatchNormalization()]
    model = namespace.Sequential(layers)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse", metrics=["mae"])
    return model


def under(strategy: Any) -> Any:
    with strategy.scope():
        return model_of()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["mirrored", "workers", "servers"]))
def test_a_checkpoint_holds_the_weights_and_slots_of_its_epoch(strategy: str, tmp_path: Path) -> None:
    seen: list[list[np.ndarray]] = []
    model = under(STRATEGIES[strategy]())
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(model.get_weights()))
    saving = [
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch:02d}-{mae:.3f}-{val_loss:.3f}.weights.h5", save_weights_only=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "last.keras"),
    ]
    history = model.fit(X, Y, validation_data=(X, Y), callbacks=[note, *saving], **OPTIONS).history
    expected = [f"{n + 1:02d}-{history['mae'][n]:.3f}-{history['val_loss'][n]:.3f}.weights.h5" for n in range(3)]
    assert names(tmp_path) == [*expected, "last.keras"]
    for number, name in enumerate(expected):
        other = model_of(plain)
        other.optimizer.build(other.trainable_variables)
        other.load_weights(tmp_path / name)
        assert all(map(np.array_equal, other.get_weights(), seen[number]))
        assert int(other.optimizer.iterations) == 3 * (number + 1)
    whole = plain.saving.load_model(tmp_path / "last.keras")
    assert all(map(np.array_equal, whole.get_weights(), seen[-1]))


def test_only_better_epochs_are_saved_and_the_first_threshold_counts(tmp_path: Path) -> None:
    values = {"val": [3.0, 4.0, 2.0]}

    class Values(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["score"] = values["val"][epoch]

    def saved(**options: Any) -> list[str]:
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        kept = keras.callbacks.ModelCheckpoint(str(directory / "{epoch}.keras"), "score", save_best_only=True, **options)
        under(sd.MirroredStrategy(2)).fit(X, Y, callbacks=[Values(), kept], **OPTIONS)
        return names(directory)

    assert saved(mode="min") == ["1.keras", "3.keras"]
    assert saved(mode="max") == ["1.keras", "2.keras"]
    assert saved(mode="min", initial_value_threshold=2.5) == ["3.keras"]


def test_the_best_of_numbers_of_batches_is_compared_in_the_first_epoch_too(tmp_path: Path) -> None:
    losses: list[float] = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    path = str(tmp_path / "{batch}.weights.h5")
    kept = keras.callbacks.ModelCheckpoint(path, "loss", save_best_only=True, save_weights_only=True, save_freq=1)
    under(sd.OneDeviceStrategy()).fit(X, Y, callbacks=[note, kept], **{**OPTIONS, "epochs": 1})
    assert names(tmp_path) == [f"{n + 1}.weights.h5" for n in range(3) if losses[n] < min(losses[:n], default=np.inf)]
    assert kept.best == min(losses)


def test_an_epoch_without_validation_is_not_saved_as_the_best(tmp_path: Path) -> None:
    kept = keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.keras"), save_best_only=True)
    with pytest.warns(UserWarning, match=r"no value of 'val_loss' \(there are: loss, mae\), so epoch [13] is"):
        under(sd.MirroredStrategy(2)).fit(X, Y, validation_data=(X, Y), validation_freq=2, callbacks=[kept], **OPTIONS)
    assert names(tmp_path) == ["2.keras"]


@pytest.mark.parametrize("workers", [1, 3])
def test_of_launched_mains_the_chief_leaves_a_file_and_the_others_none(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))

    def main() -> Any:
        model = under(sd.MultiWorkerMirroredStrategy())
        kept = [
            keras.callbacks.ModelCheckpoint(str(tmp_path / "saved" / "{epoch}-{batch}.weights.h5"), save_weights_only=True, save_freq=2),
            keras.callbacks.ModelCheckpoint(str(tmp_path / "saved" / "last.keras")),
        ]
        model.fit(X, Y, callbacks=kept, **OPTIONS)
        return [weight.tolist() for weight in model.get_weights()]

    run = sd.Cluster({"worker": workers}).launch(main)
    run.join()
    assert names(tmp_path / "saved") == ["1-2.weights.h5", "2-1.weights.h5", "2-3.weights.h5", "3-2.weights.h5", "last.keras"]
    assert names(elsewhere) == []
    for found in run.results.values():
        for weight, expected in zip(plain.saving.load_model(tmp_path / "saved" / "last.keras").get_weights(), found, strict=True):
            np.testing.assert_allclose(weight, expected, rtol=1e-6)


def test_on_the_disk_of_a_task_a_file_replaces_the_one_before_and_those_of_other_mains_are_deleted(tmp_path: Path) -> None:
    path, cluster = str(tmp_path / "best.weights.h5"), sd.Cluster({"worker": 2})
    cluster.faults.disk_full("worker:0", when=lambda state: bool(used))
    used: list[int] = []

    def main() -> tuple[int, int]:
        strategy = sd.MultiWorkerMirroredStrategy()
        model, disk = under(strategy), strategy.engine.disk(strategy.program_task)
        model.fit(X, Y, callbacks=[keras.callbacks.ModelCheckpoint(path, save_weights_only=True)], **OPTIONS)
        return disk.used_bytes, disk.size_bytes(path)

    run = cluster.launch(main)
    run.join()
    used += run.results["worker:0"]
    assert used[0] == used[1] > 0 and run.results["worker:1"] == (0, 0)
    with pytest.raises(sd.errors.ResourceExhaustedError, match=f"^{path!r} was not written"):
        cluster.launch(main).join()


def test_a_checkpoint_that_is_interrupted_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.weights.h5"
    model = under(sd.OneDeviceStrategy())
    kept = keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True)
    model.fit(X, Y, callbacks=[kept], **OPTIONS)
    before = path.read_bytes()

    def half(model: Any, destination: Path) -> None:
        destination.write_bytes(b"half")
        raise OSError("the disk is gone")

    monkeypatch.setattr(plain.Model, "save_weights", half)
    with pytest.raises(OSError, match="gone"):
        model.fit(X, Y, callbacks=[kept], **OPTIONS)
    assert (path.read_bytes(), names(tmp_path)) == (before, [path.name])


def test_a_path_that_is_a_directory_or_lies_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.keras").mkdir()
    (tmp_path / "file").touch()
    for path, words in ((tmp_path / "{epoch}.keras", "is a directory"), (tmp_path / "file" / "x.keras", "below a file")):
        with pytest.raises(sd.errors.InvalidArgumentError, match=words):
            under(sd.OneDeviceStrategy()).fit(X, Y, callbacks=[keras.callbacks.ModelCheckpoint(path)], **OPTIONS)


def test_messages_are_those_of_keras(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []
    for name, model, own in (("ours", under(sd.OneDeviceStrategy()), keras), ("plain", model_of(plain), plain)):
        directory = tmp_path / name
        kept = own.callbacks.ModelCheckpoint(str(directory / "{epoch}.keras"), "loss", verbose=1, save_best_only=True)
        model.fit(X, Y, callbacks=[kept], **OPTIONS)
        printed.append(capsys.readouterr().out.replace(str(directory), ""))
    assert printed[0] == printed[1] != ""


def test_a_chief_that_dies_while_it_saves_leaves_the_whole_file_of_before(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 2})
    # To save, all mains read the moving averages of a layer together, which takes time.
    cluster.faults.crash("worker:0", when=lambda state: (tmp_path / "model.keras").exists() and any(tmp_path.glob(".*")))

    def main() -> None:
        kept = keras.callbacks.ModelCheckpoint(str(tmp_path / "model.keras"))
        under(sd.MultiWorkerMirroredStrategy()).fit(X, Y, callbacks=[kept], **OPTIONS)

    with pytest.raises(sd.errors.SimdistError):
        cluster.launch(main).join()
    assert names(tmp_path) == ["model.keras"]
    assert int(plain.saving.load_model(tmp_path / "model.keras").optimizer.iterations) == 3
