"""Going on with the survivors: nothing is lost but time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simdist as sd
from tests.strategies.conftest import weights


def train(build: Any, dataset: sd.Dataset, crash: dict[str, Any] | None = None, workers: int = 4) -> tuple[list[np.ndarray], Any]:
    cluster = sd.Cluster({"worker": workers})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")
    model = build(strategy)
    if crash is not None:
        cluster.faults.crash(**crash)
    model.fit(dataset, epochs=4, verbose=0)
    return weights(model), strategy


def test_survivors_take_the_same_global_batches(build: Any, regression: sd.Dataset) -> None:
    expected, _ = train(build, regression)
    found, strategy = train(build, regression, {"task": "worker:1", "after_steps": 7})
    assert strategy.num_replicas_in_sync == 3
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=2e-6)


def test_a_worker_that_comes_back_joins_again(build: Any, regression: sd.Dataset) -> None:
    expected, _ = train(build, regression)
    found, strategy = train(build, regression, {"task": "worker:2", "after_steps": 3, "restart_after": 5e-4})
    assert strategy.num_replicas_in_sync == 4
    names = [mark.name for mark in strategy.cluster.trace.instants if mark.category == "resize"]
    assert names == ["leave: 3 replicas", "join: 4 replicas"]
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=2e-6)


@settings(max_examples=8, deadline=None)
@given(worker=st.integers(0, 2), at=st.floats(1e-5, 3e-3), back=st.none() | st.floats(1e-4, 2e-3))
def test_whenever_a_worker_dies_the_weights_are_those_without_the_crash(worker: int, at: float, back: float | None) -> None:
    from simdist import keras

    x = np.random.default_rng(3).normal(size=(24, 3)).astype(np.float32)
    dataset = sd.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(7)

    def run(crash: bool) -> list[np.ndarray]:
        cluster = sd.Cluster({"worker": 3})
        with sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue").scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
        if crash:
            cluster.faults.crash(f"worker:{worker}", at=at, restart_after=back)
        model.fit(dataset, epochs=3, verbose=0)
        return weights(model)

    for own, other in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=2e-6)


def test_without_survivors_it_is_an_error(build: Any, regression: sd.Dataset) -> None:
    with pytest.raises(sd.errors.UnavailableError):
        train(build, regression, {"task": "worker:0", "after_steps": 3}, workers=1)


def test_parts_that_were_cut_before_cannot_be_cut_again() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), on_failure="continue")
    step = sd.function(lambda x: strategy.run(lambda part: part * 2.0, args=(x,)))
    with pytest.raises(sd.errors.InvalidArgumentError, match="iterator"):
        step(sd.PerReplica([np.float32(1.0), np.float32(2.0)]))
