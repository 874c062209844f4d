"""A `fit` under parameter servers that is ended early leaves nothing behind that counts in the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).random((96, 4), np.float32)
Y = X.sum(1, keepdims=True)
OPTIONS: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0}
WEIGHTS = [np.zeros((4, 1)), np.zeros(1)]


class Stop(BaseException):
    """Is no `Exception`, as Ctrl-C is none."""


def model_of(mode: Any) -> Any:
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), mode=mode).scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def trained(model: Any) -> tuple[float, int]:
    """The loss of a fit of twelve batches from zero weights, and the number of its updates."""
    model.set_weights(WEIGHTS)
    before = int(model.optimizer.iterations)
    history = model.fit(X, Y, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)], **OPTIONS)
    return history.history["loss"][0], int(model.optimizer.iterations) - before


def interrupt(model: Any, kind: type[BaseException]) -> None:
    """Interrupt a fit in a callback, with closures under way."""

    def stop(batch: int, logs: Any) -> None:
        if batch == 5:
            raise kind

    with pytest.raises(kind):
        model.fit(X, Y, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=stop)], **OPTIONS)


def pending(model: Any) -> int:
    return model.simdist_strategy.coordinator.pending


@pytest.mark.parametrize(("kind", "mode"), [(KeyboardInterrupt, "async"), (SystemExit, "async"), (Stop, "sync")])
def test_the_next_fit_is_that_of_a_new_model(kind: type[BaseException], mode: str) -> None:
    model = model_of(mode)
    interrupt(model, kind)
    assert pending(model) == 0
    assert trained(model) == (pytest.approx(trained(model_of(mode))[0], rel=1e-6), 12 if mode == "async" else 4)


def test_closures_that_no_worker_has_begun_are_not_waited_for() -> None:
    """Ctrl-C where no callback follows batches, so that all that were read are scheduled."""

    def batches() -> Iterator[Any]:
        for _ in range(40):
            yield X[:8], Y[:8]
        raise KeyboardInterrupt

    model = model_of("async")
    with pytest.raises(KeyboardInterrupt):
        model.fit(batches(), steps_per_epoch=100, verbose=0)
    assert pending(model) == 0 and int(model.optimizer.iterations) <= 3
    assert trained(model)[1] == 12


def test_what_a_second_interrupt_did_not_wait_for_is_waited_for_by_the_next_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("async")
    coordinator = sd.ClusterCoordinator(model.simdist_strategy)

    def join() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(coordinator.leftovers, "_join", join)
        interrupt(model, KeyboardInterrupt)
    assert 0 < pending(model) <= 3
    seen: list[int] = []
    begun = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: seen.append(coordinator.pending))
    model.fit(X, Y, callbacks=[begun], **OPTIONS)
    assert seen == [0] and trained(model)[1] == 12


def test_an_evaluation_that_is_interrupted_leaves_nothing_under_way() -> None:
    model = model_of("async")

    def stop(batch: int, logs: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.evaluate(X, Y, batch_size=8, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_test_batch_end=stop)])
    assert pending(model) == 0


def test_an_evaluation_in_turn_that_is_interrupted_leaves_nothing_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the chief waits for the only closure."""

    class Largest(plain.metrics.Metric):
        """Does not add up, so that each batch needs the state after the one before."""

        def __init__(self) -> None:
            super().__init__(name="largest")
            self.largest = self.add_weight(initializer="zeros", name="largest")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.largest.assign(plain.ops.maximum(self.largest, plain.ops.max(y_pred)))

        def result(self) -> Any:
            return self.largest.value

    model = model_of("async")
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=[Largest()])
    coordinator = sd.ClusterCoordinator(model.simdist_strategy)

    def interrupted() -> None:
        assert coordinator.pending == 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.evaluate(X, Y, batch_size=8, verbose=0)
    assert pending(model) == 0
