"""Several batches of an evaluation or a prediction in one closure: fewer round trips, and otherwise what one closure for each gives."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.hardware import Device, Network

LATENCY_S = 1e-3
X = np.random.default_rng(0).normal(size=(27, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True)
BATCHES = 7  # of 4 rows, the last one of 3


def served(workers: int = 1, engine: Any = "simulated", **options: Any) -> tuple[sd.Cluster, Any]:
    """A cluster whose messages take their latency, and all else no time; and a model."""
    at_once = Device(flops=1e18, memory_bandwidth=1e18, launch_overhead=0.0)
    figures = {"network": Network(bandwidth=1e18, latency=LATENCY_S), "hardware": at_once} if engine == "simulated" else {}
    cluster = sd.Cluster({"worker": workers, "ps": 1}, engine=engine, **figures)
    compiled = {name: options.pop(name) for name in list(options) if name.endswith("steps_per_execution")}
    with sd.ParameterServerStrategy(cluster, **options).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile("sgd", "mse", metrics=["mae"], **compiled)
    return cluster, model


def found(model: Any, steps: int | None = None) -> tuple[Any, Any, list[Any]]:
    """Loss and metrics by name, outputs, and what hooks of batches are given."""
    seen: list[Any] = []
    notes = keras.callbacks.Callback()
    notes.on_test_batch_begin = lambda batch, logs=None: seen.append(batch)
    notes.on_test_batch_end = lambda batch, logs=None: seen.append((batch, logs["loss"], logs["mae"]))
    notes.on_predict_batch_end = lambda batch, logs=None: seen.append((batch, logs["outputs"].tolist()))
    options: dict[str, Any] = {"batch_size": 4, "steps": steps, "verbose": 0, "callbacks": [notes]}
    return model.evaluate(X, Y, return_dict=True, **options), model.predict(X, **options).tolist(), seen


@pytest.mark.parametrize("method", ["evaluate", "predict"])
@pytest.mark.parametrize("size", [3, 10])
def test_batches_of_a_closure_cost_one_round_trip_of_the_coordinator_together(size: int, method: str) -> None:
    cluster, model = served(steps_per_execution=size)
    before = cluster.now
    getattr(model, method)(*((X, Y) if method == "evaluate" else (X,)), batch_size=4, verbose=0)
    round_trips = ceil(BATCHES / size) + BATCHES  # of each closure, and of each batch for the variables
    assert cluster.now - before == pytest.approx(2 * LATENCY_S * round_trips, rel=1e-6)
    assert len(list(cluster.trace.spans.where(category="closure"))) == ceil(BATCHES / size)


@pytest.mark.parametrize(
    ("options", "steps"),
    [({}, 5), ({"exactly_once": True}, None), ({"mode": "sync"}, None), ({"devices_per_worker": 2}, 5), ({"engine": "in_process"}, None)],
    ids=["plain", "exactly once", "in rounds", "two devices", "in process"],
)
def test_packs_change_no_number_and_hooks_follow_executions(options: dict[str, Any], steps: int | None) -> None:
    logs, outputs, each = found(served(2, **options)[1], steps)
    packed = found(served(2, steps_per_execution=4, evaluation_steps_per_execution=3, **options)[1], steps)
    assert packed[:2] == (logs, outputs)
    count = steps or BATCHES
    ends = [min(begin + 3, count) - 1 for begin in range(0, count, 3)]
    tests = {line[0]: line for line in each if isinstance(line, tuple) and len(line) == 3}
    parts = [(end, outputs[begin * 4 : (end + 1) * 4]) for begin, end in zip(range(0, count, 3), ends, strict=True)]
    assert packed[2] == [line for begin, end in zip(range(0, count, 3), ends, strict=True) for line in (begin, tests[end])] + parts


@pytest.mark.parametrize("steps", [4, 7])
def test_no_more_batches_are_taken_than_steps(steps: int) -> None:
    taken: list[int] = []

    def batches() -> Iterator[tuple[Any, Any]]:
        while True:
            taken.append(len(taken))
            yield X[:4], Y[:4]

    _, model = served(2, steps_per_execution=3)
    model.evaluate(batches(), steps=steps, verbose=0)
    assert len(taken) == steps


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_pack_whose_worker_dies_is_taken_once_more_from_its_beginning(exactly_once: bool) -> None:
    cluster, model = served(2, steps_per_execution=3, exactly_once=exactly_once)
    cluster.faults.crash("worker:0", at=6.5 * LATENCY_S, restart_after=0.05)  # with its second batch or third
    logs, outputs, _ = found(model)
    assert len(list(cluster.trace.instants.where(category="retry"))) == 1
    assert (logs, outputs) == found(served()[1])[:2]


def test_an_evaluation_that_is_stopped_ends_with_the_batches_of_its_execution() -> None:
    _, model = served(2, steps_per_execution=2)
    stop = keras.callbacks.Callback()
    stop.on_test_batch_end = lambda batch, logs=None: setattr(model, "stop_evaluating", True)
    expected = served()[1].evaluate(X[:8], Y[:8], batch_size=4, verbose=0)
    assert model.evaluate(X, Y, batch_size=4, verbose=0, callbacks=[stop]) == expected
