"""TensorBoard's files, read back by TensorBoard: Keras' tags and values, under every strategy, the same bytes each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((12, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2)),
    "rounds": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), mode="sync"),
}


def model_of(strategy: Any, **options: Any) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones", name="dense")], name="model")
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], **options)
    return model


def fit(model: Any, directory: Path, **options: Any) -> Any:
    given = {"epochs": 3, "batch_size": 4, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    return model.fit(X, Y, callbacks=[keras.callbacks.TensorBoard(directory, **options)], **given).history


def reader(directory: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(directory), size_guidance={accumulator.HISTOGRAMS: 0})
    found.Reload()
    return found


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    found = reader(directory)
    return {tag: [(row.step, row.value) for row in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.sample(2)
def test_values_of_epochs_are_those_of_the_history(strategy: str, tmp_path: Path) -> None:
    history = fit(model_of(STRATEGIES[strategy]()), tmp_path)
    train, validation = scalars(tmp_path / "train"), scalars(tmp_path / "validation")
    assert set(train) == {"epoch_loss", "epoch_mae", "epoch_learning_rate"}
    assert train["epoch_learning_rate"] == [(epoch, pytest.approx(0.1)) for epoch in range(3)]
    for name in ("loss", "mae"):
        assert train[f"epoch_{name}"] == [(epoch, pytest.approx(value)) for epoch, value in enumerate(history[name])]
        expected = [pytest.approx(value) for value in history[f"val_{name}"]]
        assert validation[f"epoch_{name}"] == list(enumerate(expected))
        assert validation[f"evaluation_{name}_vs_iterations"] == list(zip([3, 6, 9], expected, strict=True))


@pytest.mark.parametrize(
    ("frequency", "size", "steps"),
    [("batch", 1, [1, 2, 3, 4, 5, 6, 7, 8, 9]), (2, 1, [2, 4, 6, 8]), (2, 3, [3, 6, 9]), (100, 1, [])],
)
def test_losses_of_batches_are_written_as_often_as_asked_for(frequency: Any, size: int, steps: list[int], tmp_path: Path) -> None:
    seen: list[float] = []
    model = model_of(sd.MirroredStrategy(2), steps_per_execution=size)
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(logs["loss"]))
    board = keras.callbacks.TensorBoard(tmp_path, update_freq=frequency)
    model.fit(X, Y, epochs=3, batch_size=4, shuffle=False, verbose=0, callbacks=[note, board])
    found = scalars(tmp_path / "train").get("batch_loss", [])
    assert found == [(step, pytest.approx(seen[step // size - 1])) for step in steps]


def test_losses_of_batches_follow_closures_that_have_ended(tmp_path: Path) -> None:
    fit(model_of(STRATEGIES["servers"]()), tmp_path, update_freq="batch")
    assert [step for step, _ in scalars(tmp_path / "train")["batch_loss"]] == list(range(1, 10))


def test_histograms_hold_all_weights_of_the_epochs_asked_for(tmp_path: Path) -> None:
    model = model_of(STRATEGIES["servers"]())
    fit(model, tmp_path, histogram_freq=2)
    found = reader(tmp_path / "train")
    assert set(found.Tags()["histograms"]) == {"model/dense/kernel/histogram", "model/dense/bias/histogram"}
    rows = found.Histograms("model/dense/kernel/histogram")
    assert [row.step for row in rows] == [0, 2]
    last, kernel = rows[-1].histogram_value, model.get_weights()[0]
    assert (last.num, last.min, last.max, last.sum) == (3, kernel.min(), kernel.max(), pytest.approx(kernel.sum()))


def test_steps_are_counted_by_virtual_second(tmp_path: Path) -> None:
    model = model_of(STRATEGIES["servers"]())
    began_s = model.simdist_strategy.engine.now
    fit(model, tmp_path, write_steps_per_second=True, update_freq=3)
    train = scalars(tmp_path / "train")
    wall_s = [row.wall_time for row in reader(tmp_path / "train").Scalars("epoch_steps_per_second")]
    assert began_s < wall_s[0] < wall_s[-1] <= model.simdist_strategy.engine.now
    assert [step for step, _ in train["batch_steps_per_second"]] == [3, 6, 9]
    assert train["epoch_steps_per_second"][0][1] == pytest.approx(3 / (wall_s[0] - began_s), rel=0.5)


@pytest.mark.parametrize("save_freq", [3, "epoch"])
@pytest.mark.sample(2)
def test_batches_are_counted_on_after_a_restore(save_freq: Any, tmp_path: Path) -> None:
    """Batches and their losses are those of the undisturbed training, from the first after the backup on; rates are of its own steps."""

    def train(directory: Path, stop_after: int | None) -> dict[str, list[tuple[int, float]]]:
        done: list[int] = []

        def end(batch: int, logs: Any) -> None:
            done.append(batch)
            if len(done) == stop_after:
                raise KeyboardInterrupt

        model, log = model_of(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))), directory / f"log {stop_after}"
        board = keras.callbacks.TensorBoard(log, update_freq="batch", write_steps_per_second=True)
        backup = keras.callbacks.BackupAndRestore(directory / "backup", save_freq)
        calls = [backup, board, keras.callbacks.LambdaCallback(on_train_batch_end=end)]
        model.fit(X, Y, epochs=3, batch_size=2, shuffle=False, verbose=0, callbacks=calls)
        return scalars(log / "train")

    expected = train(tmp_path / "whole", None)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", 10)
    found = train(tmp_path / "parts", None)
    saved = 9 if save_freq == 3 else 6
    assert found["batch_loss"] == expected["batch_loss"][saved:] and found["batch_loss"][0][0] == saved + 1
    (epoch, rate), before = found["epoch_steps_per_second"][0], expected["epoch_steps_per_second"][1]
    assert (epoch, rate) == (1, pytest.approx(before[1], rel=0.2)), "of three steps where three were done"


def test_equal_trainings_write_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fit(model_of(STRATEGIES["servers"]()), tmp_path / name, histogram_freq=1, update_freq="batch")
    files = [sorted(path for path in (tmp_path / name).rglob("*") if path.is_file()) for name in ("a", "b")]
    assert len(files[0]) == 2
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_a_second_training_goes_on_in_new_files(tmp_path: Path) -> None:
    model = model_of(sd.OneDeviceStrategy())
    fit(model, tmp_path)
    fit(model, tmp_path)
    assert len(list((tmp_path / "train").iterdir())) == 2
    assert [step for step, _ in scalars(tmp_path / "train")["epoch_loss"]] == [0, 1, 2, 0, 1, 2]


def test_an_evaluation_alone_is_written_against_the_updates(tmp_path: Path) -> None:
    model = model_of(sd.MirroredStrategy(2))
    model.fit(X, Y, batch_size=4, verbose=0)
    loss, _ = model.evaluate(X, Y, verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path)])
    assert scalars(tmp_path / "validation")["evaluation_loss_vs_iterations"] == [(3, pytest.approx(loss))]
    assert not (tmp_path / "train").exists()


def test_of_launched_mains_the_chief_writes_and_all_read(tmp_path: Path) -> None:
    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1), keras.layers.BatchNormalization()])
            model.compile(keras.optimizers.SGD(0.1), "mse")
        return fit(model, tmp_path, histogram_freq=1, update_freq="batch")

    run = sd.Cluster({"worker": 3}).launch(main)
    run.join()
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2
    losses = run.results["worker:1"]["loss"]
    assert scalars(tmp_path / "train")["epoch_loss"] == [(epoch, pytest.approx(loss)) for epoch, loss in enumerate(losses)]


def test_a_model_of_no_strategy_is_written_with_real_times(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    fit(model, tmp_path, histogram_freq=1)
    assert reader(tmp_path / "train").Scalars("epoch_loss")[0].wall_time > 1e9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"write_graph": True}, "write_graph"),
        ({"write_images": True}, "histogram_freq"),
        ({"profile_batch": 2}, "cluster.trace"),
        ({"profile_batch": (2, 5)}, "cluster.trace"),
        ({"embeddings_freq": 1}, "embeddings_freq"),
        ({"embeddings_metadata": "words.tsv"}, "embeddings_metadata"),
        ({"update_freq": 0}, "update_freq"),
        ({"update_freq": "often"}, "update_freq"),
        ({"histogram_freq": -1}, "histogram_freq"),
    ],
    ids=str,
)
def test_what_needs_tensorflow_is_refused_where_it_is_asked_for(options: dict[str, Any], words: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=words):
        keras.callbacks.TensorBoard("logs", **options)


def test_a_log_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with pytest.raises(sd.errors.InvalidArgumentError, match="directory of event files"):
        fit(model_of(sd.OneDeviceStrategy()), tmp_path / "log")
