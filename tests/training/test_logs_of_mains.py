"""Logs that are no metrics: all launched mains have those of a notebook, so that their callbacks act alike."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).normal(size=(27, 6)).astype(np.float32)
Y = np.tanh(X.sum(1, keepdims=True))
RATE = 0.05


def model_of(library: Any) -> Any:
    class Model(library.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            logs, state = super().train_step(state, data)
            x, y = data[:2]
            return {**logs, "moment": (x[:, 0] * y[:, 0]).mean()}, state  # not what a metric counts

    model = Model([library.Input((6,)), library.layers.Dense(1, kernel_initializer="ones")])
    model.compile(library.optimizers.SGD(RATE), "mse")
    return model


def fitted(library: Any, strategy: Any = None, callback: Any = None, rows: int = 27) -> tuple[dict[str, list[float]], Any]:
    if strategy is None:
        model = model_of(library)
    else:
        with strategy.scope():
            model = model_of(library)
    callbacks = [] if callback is None else [callback()]
    history = model.fit(X[:rows], Y[:rows], batch_size=8, epochs=4, shuffle=False, verbose=0, callbacks=callbacks).history
    return history, [np.asarray(weight.value) for weight in model.weights]


def mains(workers: int, callback: Any = None, rows: int = 27) -> list[tuple[dict[str, list[float]], Any]]:
    run = sd.Cluster({"worker": workers}).launch(lambda: fitted(keras, sd.MultiWorkerMirroredStrategy(), callback, rows))
    run.join()
    return [run.results[f"worker:{number}"] for number in range(workers)]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("workers", "rows"), [(3, 27), (2, 27), (2, 25)])  # the last batch has 3 rows, or 1: some mains have none of it
def test_the_logs_of_each_main_are_those_of_plain_keras(workers: int, rows: int) -> None:
    expected, weights = fitted(plain, rows=rows)
    for history, found in mains(workers, rows=rows):
        assert list(history) == list(expected)
        for name, values in expected.items():
            assert history[name] == pytest.approx(values, rel=1e-4)
        for value, other in zip(found, weights, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-6)


def lowered() -> Any:
    """The rate of each main would follow its own part of the rows: they have moments of different signs."""

    class Lowering(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = RATE * (1 + logs["moment"])

    return Lowering()


def test_mains_whose_callbacks_follow_the_logs_keep_equal_weights() -> None:
    _, weights = fitted(plain, callback=lowered)
    for _, found in mains(2, lowered):
        for value, other in zip(found, weights, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-6)


def test_mains_without_numbers_take_the_time_of_those_that_read_their_metrics() -> None:
    def main() -> dict[str, list[float]]:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile("sgd", "mse", metrics=["mae"])
        return model.fit(X, Y, batch_size=9, epochs=3, shuffle=False, verbose=0).history

    spans: list[Any] = []
    for numerics in ("deferred", "off"):
        with sd.Cluster({"worker": 2}, numerics=numerics) as cluster:
            run = cluster.launch(main)
            run.join()
            assert [bool(history) for history in run.results.values()] == [numerics == "deferred"] * 2
            spans.append(sorted((span.lane, span.category, span.name, span.start_s, span.end_s) for span in cluster.trace.spans))
    assert spans[0] == spans[1]
    assert sum(name == "look" for _, _, name, _, _ in spans[0]) == 2 * 3  # each main, each epoch


def validated(library: Any, strategy: Any = None) -> list[float]:
    losses: list[float] = []
    reading = library.callbacks.LambdaCallback(on_test_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    with strategy.scope() if strategy else nullcontext():
        model = library.Sequential([library.Input((6,)), library.layers.Dense(1, kernel_initializer="ones")])
        model.compile(library.optimizers.SGD(0.0), "mse")
    model.fit(X[:8], Y[:8], verbose=0, validation_data=(X, Y), validation_batch_size=9, callbacks=[reading])
    return losses


def test_logs_of_batches_of_a_validation_are_those_of_all_mains() -> None:
    run = sd.Cluster({"worker": 2}, seed=0).launch(lambda: validated(keras, sd.MultiWorkerMirroredStrategy()))
    run.join()
    first, second = run.results["worker:0"], run.results["worker:1"]
    assert first == second == pytest.approx(validated(plain), rel=1e-5)
