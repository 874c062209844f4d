"""Steps of several workers that assign one variable: a warning names it, where one of the workers would be right alone."""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import ANY

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import LostAssignmentWarning

X, Y = np.ones((64, 1), np.float32), np.linspace(1, 0, 64, dtype=np.float32)[:, None]


class Largest(plain.metrics.Metric):
    def __init__(self) -> None:
        super().__init__(name="largest")
        self.found = self.add_variable((), "zeros", name="found")

    def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.found.assign(plain.ops.maximum(self.found.value, plain.ops.max(y)))

    def result(self) -> Any:
        return self.found.value


class Total(Largest):
    """As Keras' own metrics count: by assigning a sum."""

    def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.found.assign(self.found + plain.ops.sum(y))


class Counting(plain.layers.Layer):
    def __init__(self, adds: bool) -> None:
        super().__init__(name="counting")
        self.adds = adds
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training and self.adds:
            self.count.assign_add(1.0)
        elif training:
            self.count.assign(self.count + 1.0)
        return inputs


class OwnStep(keras.Sequential):
    def train_step(self, state: Any, data: Any) -> Any:
        return super().train_step(state, data)


def trained(strategy: Any, *layers: Any, metrics: Any = (), kind: Any = keras.Sequential, **options: Any) -> tuple[Any, Any, list[str]]:
    with strategy.scope(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind([keras.Input((1,)), *[make() for make in layers], keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[make() for make in metrics], **options)
        history = model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
    return model, history, [str(one.message) for one in caught if one.category is LostAssignmentWarning]


def servers(workers: int, **options: Any) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": 1}), **options)


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
def test_a_metric_that_assigns_is_named_once_where_several_workers_train(kind: Any) -> None:
    _, history, (message,) = trained(servers(2), metrics=[Largest], kind=kind)
    assert "'largest/found'" in message
    assert "2 workers" in message
    assert max(history["largest"]) <= Y.max()


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
def test_one_worker_assigns_alone_and_is_right(kind: Any) -> None:
    _, history, messages = trained(servers(1), metrics=[Largest], kind=kind)
    assert (messages, history["largest"]) == ([], [Y.max()] * 2)


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
def test_metrics_that_add_up_are_right_with_several_workers(kind: Any) -> None:
    _, history, messages = trained(servers(3), metrics=[Total, plain.metrics.MeanAbsoluteError, plain.metrics.R2Score], kind=kind)
    assert messages == []
    assert history["largest"] == pytest.approx([Y.sum()] * 2)


def test_a_counter_that_a_layer_assigns_is_named_and_one_that_it_adds_to_is_right() -> None:
    _, _, (message,) = trained(servers(2), lambda: Counting(adds=False))
    assert "count'" in message
    model, _, messages = trained(servers(2), lambda: Counting(adds=True))
    assert (messages, float(model.layers[0].count.value)) == ([], 16.0)


def test_the_moving_averages_of_keras_layers_are_those_of_the_last_step_and_nothing_is_said() -> None:
    assert trained(servers(2), keras.layers.BatchNormalization)[2] == []


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
@pytest.mark.parametrize("eager", [False, True])
def test_what_workers_of_a_round_assign_of_their_batches_is_named(eager: bool, kind: Any) -> None:
    _, history, (message,) = trained(servers(2, mode="sync"), metrics=[Largest], kind=kind, run_eagerly=eager)
    assert "'largest/found'" in message
    assert "each round 2 workers" in message
    assert max(history["largest"]) <= Y.max()


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
def test_what_all_workers_of_a_round_assign_alike_is_right_and_nothing_is_said(kind: Any) -> None:
    model, history, messages = trained(servers(2, mode="sync"), lambda: Counting(adds=False), metrics=[Total], kind=kind)
    assert (messages, float(model.layers[0].count.value)) == ([], 8.0)
    assert history["largest"] == pytest.approx([Y.sum()] * 2)
    assert trained(servers(1, mode="sync"), metrics=[Largest], kind=kind)[1:] == ({"largest": [1.0] * 2, "loss": ANY}, [])


class Rows(Largest):
    """Counts rows, otherwise than by a sum of the variable itself."""

    def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.found.assign(plain.ops.add(self.found, float(y.shape[0])))


@pytest.mark.parametrize("eager", [False, True])
def test_what_workers_of_a_round_assign_of_what_was_counted_before_is_named(eager: bool) -> None:
    _, history, (message,) = trained(servers(2, mode="sync"), metrics=[Rows], run_eagerly=eager)
    assert "'largest/found'" in message
    assert "of what was counted before" in message
    assert history["largest"] == [32.0] * 2, "half of the rows"


def test_what_workers_some_rounds_apart_assign_is_named() -> None:
    assert len(trained(servers(2, mode="bounded", staleness=2), lambda: Counting(adds=False), metrics=[Largest])[2]) == 2


class First(Largest):
    """As Largest, of what the first replica sees."""

    def __init__(self) -> None:
        plain.metrics.Metric.__init__(self, name="largest")
        self.found = self.add_variable((), "zeros", aggregation="only_first_replica", name="found")


SYNCHRONOUS = [lambda: sd.MirroredStrategy(2), lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))]


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
@pytest.mark.parametrize("strategy", SYNCHRONOUS)
@pytest.mark.sample
def test_a_metric_that_replicas_assign_and_whose_values_are_added_is_named(strategy: Any, kind: Any) -> None:
    _, history, (message,) = trained(strategy(), metrics=[Largest], kind=kind)
    assert "'largest/found' on each of 2 replicas" in message
    assert history["largest"][0] > Y.max(), "it is the sum of two"


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
@pytest.mark.parametrize("strategy", SYNCHRONOUS)
@pytest.mark.sample
def test_what_replicas_count_and_what_has_another_aggregation_is_right_and_nothing_is_said(strategy: Any, kind: Any) -> None:
    kept = [First, plain.metrics.MeanAbsoluteError, plain.metrics.R2Score, lambda: plain.metrics.MeanIoU(2), plain.metrics.AUC]
    _, history, messages = trained(strategy(), keras.layers.BatchNormalization, lambda: Counting(adds=False), metrics=kept, kind=kind)
    assert (messages, history["largest"]) == ([], [Y.max()] * 2)
    _, history, messages = trained(strategy(), metrics=[Total], kind=kind)
    assert messages == []
    assert history["largest"] == pytest.approx([Y.sum()] * 2)


COUNTED: dict[str, Any] = {
    "added in another order": lambda found, count: found.assign(count + found),
    "by an operation of Keras": lambda found, count: found.assign(plain.ops.add(found, count)),
    "with the value": lambda found, count: found.assign(found.value + count),
    "converted": lambda found, count: found.assign(plain.ops.cast(plain.ops.convert_to_tensor(found) - (-count), "float32")),
}


@pytest.mark.sample
@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("way", COUNTED)
def test_what_replicas_count_is_right_however_it_is_written_and_nothing_is_said(way: str, eager: bool, kind: Any) -> None:
    class Counted(Largest):
        def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
            COUNTED[way](self.found, plain.ops.sum(y))

    _, history, messages = trained(sd.MirroredStrategy(2), metrics=[Counted], kind=kind, run_eagerly=eager)
    assert messages == []
    assert history["largest"] == pytest.approx([Y.sum()] * 2)


def test_a_metric_that_counts_twice_in_a_step_is_right_and_nothing_is_said() -> None:
    class Twice(Largest):
        def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.found.assign(self.found.value + plain.ops.sum(y))
            self.found.assign(self.found.value - 0.5 * plain.ops.sum(y))

    _, history, messages = trained(sd.MirroredStrategy(2), metrics=[Twice])
    assert messages == []
    assert history["largest"] == pytest.approx([0.5 * Y.sum()] * 2)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("way", [lambda found, count: found.assign(count), lambda found, count: found.assign(2 * found.value + count)])
def test_what_does_not_add_up_is_named_however_it_is_written(way: Any, eager: bool) -> None:
    class Last(Largest):
        def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
            way(self.found, plain.ops.max(y))

    (message,) = trained(sd.MirroredStrategy(2), metrics=[Last], run_eagerly=eager)[2]
    assert "'largest/found' on each of 2 replicas" in message


@pytest.mark.parametrize("strategy", [lambda: sd.OneDeviceStrategy(), lambda: sd.MirroredStrategy(1)])
def test_one_replica_assigns_what_is_read(strategy: Any) -> None:
    _, history, messages = trained(strategy(), metrics=[Largest])
    assert (messages, history["largest"]) == ([], [Y.max()] * 2)
