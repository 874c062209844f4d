"""Hooks of batches are called in Keras' order, with true values: in a notebook's strategies and by closures that have ended."""

from __future__ import annotations

import os
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
X = np.random.default_rng(0).random((14, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "one worker": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
    "rounds": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), mode="sync"),
}


def compiled(namespace: Any, **options: Any) -> Any:
    model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"], **options)
    return model


class Notes(keras.callbacks.Callback):
    """Writes down which hooks are called, and with which logs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.calls.append(("train begin",))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(("epoch begin", epoch))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("begin", batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("end", batch, dict(logs)))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(("epoch end", epoch, dict(logs)))

    def on_train_end(self, logs: Any = None) -> None:
        self.calls.append(("train end", dict(logs)))


def noted(model: Any, **options: Any) -> list[tuple[Any, ...]]:
    notes = Notes()
    model.fit(X, Y, batch_size=4, shuffle=False, epochs=2, verbose=0, callbacks=[notes], **options)
    return notes.calls


CASES = [("one device", 1), ("one device", 3), ("mirrored", 1), ("mirrored", 3), ("one worker", 1), ("one worker", 3), ("rounds", 1)]


@pytest.mark.parametrize(("strategy", "size"), sampled(CASES, [("one device", 1), ("mirrored", 3), ("one worker", 3), ("rounds", 1)]))
def test_hooks_and_logs_are_those_of_keras(strategy: str, size: int) -> None:
    if strategy == "rounds" and size > 1:
        pytest.skip("in rounds each step is a closure")
    with STRATEGIES[strategy]().scope():
        ours = compiled(keras, steps_per_execution=size)
    found, expected = noted(ours), noted(compiled(plain, steps_per_execution=size))
    # Keras 3 numbers the last batch of an execution as if there were no end of the data; here it is one that there was.
    names = [(call[0], min(call[1], 3) if call[0] == "end" else call[1]) for call in expected[1:-1]]
    assert [call[:2] for call in found[1:-1]] == names
    for call, wanted in zip(found, expected, strict=True):
        if isinstance(wanted[-1], dict):
            assert call[-1] == pytest.approx(wanted[-1], rel=1e-5)


def test_hooks_follow_the_closures_of_several_workers_also_where_one_dies() -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 1}, seed=1)
    cluster.faults.crash("worker:1", after_steps=2, restart_after=0.01)
    with sd.ParameterServerStrategy(cluster, exactly_once=True).scope():
        model = compiled(keras)
    seen: list[tuple[int, int]] = []

    class Counting(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append((batch, int(self.model.metrics_variables[1].numpy())))

    model.fit(X, Y, batch_size=1, shuffle=False, epochs=1, verbose=0, callbacks=[Counting()])
    assert [batch for batch, _ in seen] == list(range(14))
    assert [count for _, count in seen] == sorted(count for _, count in seen)
    assert all(count >= batch + 1 for batch, count in seen) and seen[-1][1] == 14


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_hook_of_a_batch_can_end_the_training(strategy: str) -> None:
    class Stopping(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch >= 1

    with STRATEGIES[strategy]().scope():
        model = compiled(keras)
    history = model.fit(X, Y, batch_size=1, epochs=5, verbose=0, callbacks=[Stopping()]).history
    assert len(history["loss"]) == 1
    assert int(model.optimizer.iterations) == 2


def test_logs_of_batches_are_computed_for_those_who_read_them_and_nobody_else(tmp_path: Path) -> None:
    def reads_of(*callbacks: Any) -> int:
        strategy = sd.MirroredStrategy(2)
        with strategy.scope():
            model = compiled(keras)
        with pytest.MonkeyPatch.context() as patch:
            read: list[Any] = []
            patch.setattr(strategy.store, "compute", lambda variables: read.append(variables))
            model.fit(X, Y, batch_size=2, verbose=0, callbacks=list(callbacks))
        return len(read)

    assert reads_of() == reads_of(keras.callbacks.ModelCheckpoint(tmp_path / "each.keras"), keras.callbacks.CSVLogger(os.devnull)) == 1
    assert reads_of(keras.callbacks.TerminateOnNaN()) == 1 + 7


def test_checkpoints_are_written_every_so_many_batches(tmp_path: Path) -> None:
    written: list[list[str]] = []
    for name, scope in (("plain", None), ("ours", sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})).scope())):
        folder = tmp_path / name
        folder.mkdir()
        if scope is None:
            model = compiled(plain)
        else:
            with scope:
                model = compiled(keras)
        kept = keras.callbacks.ModelCheckpoint(str(folder / "{epoch}-{batch}.weights.h5"), save_weights_only=True, save_freq=3)
        model.fit(X, Y, batch_size=4, epochs=2, verbose=0, callbacks=[kept])
        written.append(sorted(path.name for path in folder.iterdir()))
    assert written[0] == written[1] and len(written[0]) == 2


@pytest.mark.parametrize("hook", ["on_train_batch_begin", "on_train_batch_end", "on_test_batch_end", "on_predict_batch_end"])
def test_what_was_scheduled_before_an_error_of_a_hook_does_not_count_later(hook: str) -> None:
    class Broken(keras.callbacks.Callback):
        pass

    def fail(self: Any, batch: int, logs: Any = None) -> None:
        if batch == 1:
            raise OSError("mine")

    setattr(Broken, hook, fail)
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1})).scope():
        model = compiled(keras)
    call = {"train": model.fit, "test": model.evaluate, "predict": model.predict}[hook.split("_")[1]]
    arrays = (X,) if hook.startswith("on_predict") else (X, Y)
    with pytest.raises(OSError, match="mine"):
        call(*arrays, batch_size=1, verbose=0, callbacks=[Broken()])
    before = int(model.optimizer.iterations)
    model.fit(X, Y, batch_size=7, verbose=0)
    assert int(model.optimizer.iterations) == before + 2
    assert float(model.metrics_variables[1].numpy()) == len(X)  # rows in the mean loss


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_what_a_hook_changes_before_a_batch_counts_for_that_batch(engine: Any) -> None:
    class Rate(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = 0.1 if batch == 0 else 0.0
            self.model.stop_training = batch == 3

    with sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, engine=engine)).scope():
        model = compiled(keras)
    expected = compiled(plain)
    for one in (model, expected):
        one.fit(X, Y, batch_size=2, shuffle=False, verbose=0, callbacks=[Rate()])
    assert int(model.optimizer.iterations) == int(expected.optimizer.iterations) == 4
    np.testing.assert_allclose(model.get_weights()[0], expected.get_weights()[0], rtol=1e-6)


def test_a_layer_that_remembers_is_traced_once() -> None:
    calls: list[int] = []

    class Remembering(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any) -> Any:
            calls.append(1)
            self.count.assign_add(1.0)
            return x

    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), Remembering(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.evaluate(X, Y, batch_size=7, verbose=0)
    before = len(calls)
    model.evaluate(X, Y, batch_size=7, verbose=0)
    assert len(calls) == before
    assert float(model.layers[0].count.numpy()) == 4


def test_an_evaluation_may_have_another_number_of_steps_per_execution() -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=3, evaluation_steps_per_execution=2)
    seen: dict[str, list[int]] = {"train": [], "test": []}
    notes = keras.callbacks.Callback()
    notes.on_train_batch_end = lambda batch, logs=None: seen["train"].append(batch)
    notes.on_test_batch_end = lambda batch, logs=None: seen["test"].append(batch)
    data = sd.Dataset.from_tensor_slices((np.ones((12, 3)), np.ones((12, 1)))).batch(2)
    model.fit(data, validation_data=data, verbose=0, callbacks=[notes])
    assert seen == {"train": [2, 5], "test": [1, 3, 5]}


@pytest.mark.parametrize("count", [0, -1, 1.5, "auto"])
def test_steps_of_an_evaluation_are_a_number(count: Any) -> None:
    with sd.OneDeviceStrategy().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        with pytest.raises((ValueError, TypeError), match="evaluation_steps_per_execution"):
            model.compile("sgd", "mse", evaluation_steps_per_execution=count)
    with pytest.raises(ValueError, match="under a strategy"):
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).compile("sgd", "mse", evaluation_steps_per_execution=2)
