"""`fit` in rounds: who is in which round does not depend on how long callbacks take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).normal(size=(68, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True)
WORKERS, ROWS = 4, 4

MODES: dict[str, dict[str, Any]] = {
    "synchronous": {"mode": "sync"},
    "with a backup worker": {"mode": "sync", "backup_workers": 1},
    "bounded": {"mode": "bounded", "staleness": 1},
}

Hooks = Callable[[Any, sd.Cluster, Path], Any]

HOOKS: dict[str, Hooks] = {
    "sleeps": lambda model, cluster, path: keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: sd.sleep(0.5, cluster)),
    "saves": lambda model, cluster, path: keras.callbacks.ModelCheckpoint(path / "a.weights.h5", save_freq=1, save_weights_only=True),
}

WHOLE: dict[str, Hooks] = {
    "sleeps before": lambda model, cluster, path: keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: sd.sleep(0.5, cluster)
    ),
    "evaluates": lambda model, cluster, path: keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: model.evaluate(X[:6], Y[:6], verbose=0)
    ),
}


def fitted(options: dict[str, Any], hooks: Hooks | None, path: Path) -> tuple[int, bytes]:
    """The number of updates, and the bits of the weights, after two epochs of four rounds and one batch."""
    cluster = sd.Cluster({"worker": WORKERS, "ps": 2})
    with sd.ParameterServerStrategy(cluster, **options).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse")
    callbacks = [] if hooks is None else [hooks(model, cluster, path)]
    model.fit(X, Y, batch_size=ROWS, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
    return int(model.optimizer.iterations), b"".join(weight.tobytes() for weight in model.get_weights())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.sample
def test_a_callback_that_takes_time_changes_nothing(mode: str, hooks: str, tmp_path: Path) -> None:
    assert fitted(MODES[mode], HOOKS[hooks], tmp_path) == fitted(MODES[mode], None, tmp_path)


@pytest.mark.parametrize("hooks", WHOLE)
def test_synchronous_rounds_are_whole_whatever_a_callback_does(hooks: str, tmp_path: Path) -> None:
    found = fitted(MODES["synchronous"], WHOLE[hooks], tmp_path)
    assert found == fitted(MODES["synchronous"], None, tmp_path)
    assert found[0] == 2 * 5


def test_what_a_callback_assigns_after_a_round_counts_for_all_workers() -> None:
    with sd.ParameterServerStrategy(sd.Cluster({"worker": WORKERS, "ps": 1}), mode="sync").scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse")

    def stop(batch: int, logs: Any) -> None:
        model.optimizer.learning_rate = 0.0

    model.fit(X, Y, batch_size=ROWS, shuffle=False, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=stop)])
    expected = 0.1 * (2 * X[:16] * Y[:16]).mean(0)  # one step, with the mean over the rows of the first round
    np.testing.assert_allclose(model.get_weights()[0].ravel(), expected, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_a_callback_may_wait_for_closures_of_its_own(mode: str) -> None:
    cluster = sd.Cluster({"worker": WORKERS, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster, **MODES[mode])
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        own = sd.Variable(0.0)
    coordinator, step = sd.ClusterCoordinator(strategy), sd.function(lambda: own.assign_add(1.0))

    def wait(batch: int, logs: Any) -> None:
        result = coordinator.schedule(step)
        if batch % 3 == 0:
            result.fetch()
        elif batch % 3 == 1:
            coordinator.join()
        while not coordinator.done():
            sd.sleep(0.1, cluster)

    model.fit(X, Y, batch_size=ROWS, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=wait)])
    assert float(own) == 17.0
