"""Metrics that write ``variable.assign(variable + count)``, as most of Keras' do, count what all workers of parameter servers have seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

# Keras counts the rows of R2Score in 64 bits.
pytestmark = pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")
X = np.array([0.9, 0.8, 0.3, 0.7, 0.2, 0.6, 0.1, 0.4] * 6, np.float32)[:, None]
Y = np.array([1, 1, 1, 1, 0, 0, 0, 0] * 6, np.float32)[:, None]


def metrics() -> list[Any]:
    return [
        keras.metrics.Precision(name="precision"),
        keras.metrics.Recall(name="recall"),
        keras.metrics.FalsePositives(name="fp"),
        keras.metrics.AUC(name="auc"),
        keras.metrics.SensitivityAtSpecificity(0.5, name="sensitivity"),
        keras.metrics.F1Score(threshold=0.5, name="f1"),
        keras.metrics.BinaryIoU(name="iou"),
        keras.metrics.R2Score(name="r2"),
    ]


def fitted(**options: Any) -> dict[str, Any]:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=metrics(), **options)
    history = model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
    return {name: np.asarray(values, float).ravel() for name, values in history.items()}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    with sd.OneDeviceStrategy().scope():
        return fitted()


@pytest.mark.parametrize(
    ("workers", "options"),
    [(3, {}), (2, {"mode": "sync"}), (2, {"mode": "bounded", "staleness": 1}), (2, {"devices_per_worker": 2})],
)
@pytest.mark.sample(2)
def test_metrics_count_what_all_workers_have_seen(workers: int, options: dict[str, Any], alone: dict[str, Any]) -> None:
    with sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": 2}), **options).scope():
        found = fitted()
    for name, values in alone.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)


def test_a_metric_in_closures_of_ones_own_loses_no_count() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        metric = keras.metrics.TruePositives()

    @sd.function
    def step() -> None:
        metric.update_state(np.ones(3), np.ones(3))

    for _ in range(6):
        coordinator.schedule(step)
    coordinator.join()
    assert float(metric.result()) == 18.0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda v: v.assign(v + 3.0), 6.0),
        (lambda v: v.assign(3.0 + v), 6.0),
        (lambda v: [v.assign(total) for total in [v + 3.0] * 2], 6.0),  # the same sum twice: it is added once
        (lambda v: [v.assign(v + 1.0), v.assign(v + 2.0)], 6.0),
        (lambda v: [(total := v + 3.0), v.assign_add(5.0), v.assign(total)], 6.0),  # what was added meanwhile is overwritten
        (lambda v: v.assign(v + v + 1.0), 3.0),
        (lambda v: v.assign(2.0), 2.0),
    ],
)
def test_a_sum_is_added_once_and_only_if_nothing_came_between(change: Callable[[Any], Any], expected: float) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        metric = keras.metrics.Sum()

    @sd.function
    def step() -> None:
        change(metric.total)

    for _ in range(2):
        coordinator.schedule(step)
    coordinator.join()
    assert float(metric.result()) == expected


def test_what_is_assigned_otherwise_is_assigned() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        metric = keras.metrics.Sum()

    @sd.function
    def step() -> None:
        metric.total.assign(2.0 * (metric.total + 3.0))

    for _ in range(2):
        coordinator.schedule(step)
    coordinator.join()
    assert float(metric.result()) == 18.0
