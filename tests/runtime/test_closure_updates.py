"""What a closure changes of the chief's variables: its later steps see it, others do not until its reply is accepted."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import simdist as sd
from beside_keras import plain
from simdist import keras
from simdist.program.values import Bundle
from simdist.runtime.closure_updates import ClosureUpdates

FIRST, SUM = sd.VariableAggregation.ONLY_FIRST_REPLICA, sd.VariableAggregation.SUM
CHIEF = [{"aggregation": FIRST}, {"aggregation": SUM, "synchronization": sd.VariableSynchronization.ON_READ}]


def number(bundle: Bundle) -> float:
    assert bundle.arrays is not None
    return float(np.asarray(bundle.arrays[0]))


def of(value: float) -> Bundle:
    return Bundle.of((np.float32(value),))  # type: ignore[arg-type]


def test_a_closure_sees_its_own_updates_in_their_order() -> None:
    updates = ClosureUpdates[tuple[float, float]](lambda version, update: of(number(version) * update[0] + update[1]))
    assert number(updates.seen(3, of(5.0))) == 5.0 and not updates.has_changed(3)
    updates.add(3, (2.0, 1.0))
    updates.add(3, (3.0, 0.0))
    updates.add(4, (0.0, 7.0))
    assert number(updates.seen(3, of(5.0))) == 33.0
    assert number(updates.seen(3, of(100.0))) == 33.0  # what others have changed since is not among it
    updates.add(3, (1.0, 1.0))
    assert number(updates.seen(3, of(100.0))) == 34.0
    assert number(updates.seen(4, of(1.0))) == 7.0
    assert updates.all == [(2.0, 1.0), (3.0, 0.0), (0.0, 7.0), (1.0, 1.0)]


def test_a_closure_goes_on_from_versions_that_it_is_given() -> None:
    updates = ClosureUpdates[float](lambda version, update: of(number(version) + update))
    updates.begin_with([(0, of(10.0))])
    assert number(updates.seen(0, of(1.0))) == 10.0
    updates.add(0, 5.0)
    assert number(updates.seen(0, of(1.0))) == 15.0 and updates.all == [5.0]


def cluster(engine: str, workers: int = 1) -> sd.Cluster:
    spec = {"worker": workers, "ps": 1}
    return sd.Cluster(spec) if engine == "simulated" else sd.Cluster(spec, engine="in_process", isolated=engine == "isolated")


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
@pytest.mark.parametrize("options", CHIEF, ids=["first", "sum"])
def test_a_step_reads_what_it_has_added_to_a_variable_of_the_chief(options: Any, engine: str) -> None:
    strategy = sd.ParameterServerStrategy(cluster(engine))
    with strategy.scope():
        count, seen = sd.Variable(0.0, **options), sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def step() -> None:
        count.assign_add(1.0)
        seen.assign_add(count.value)

    for _ in range(3):
        coordinator.schedule(step)
    coordinator.join()
    assert (float(count.numpy()), float(seen.numpy())) == (3.0, 6.0)


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
@pytest.mark.sample(2)
def test_steps_of_one_closure_go_on_where_the_one_before_has_ended(engine: str) -> None:
    def trained(namespace: Any, steps: int, strategy: Any) -> list[Any]:
        x = np.random.default_rng(0).normal(3.0, 2.0, (64, 3)).astype(np.float32)
        with strategy.scope() if strategy else nullcontext():
            model = namespace.Sequential(
                [
                    namespace.Input((3,)),
                    namespace.layers.BatchNormalization(momentum=0.9),
                    namespace.layers.Dense(1, kernel_initializer="ones"),
                ]
            )
            model.compile(namespace.optimizers.SGD(0.01), "mse", steps_per_execution=steps)
        model.fit(x, x.sum(1, keepdims=True), batch_size=8, epochs=2, shuffle=False, verbose=0)
        return [np.asarray(weight.value) for weight in model.weights]

    expected = trained(plain, 1, None)
    for steps in (1, 4):
        found = trained(keras, steps, sd.ParameterServerStrategy(cluster(engine)))
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=2e-5, atol=1e-6)


def test_replicas_of_one_worker_count_each_step_of_a_closure() -> None:
    class Counting(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False, name="steps")

        def call(self, x: Any) -> Any:
            self.steps.assign(self.steps + 1.0)
            return x

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=2)
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), Counting(), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=4)
    x = np.ones((32, 1), np.float32)
    model.fit(x, x, batch_size=4, epochs=1, verbose=0)
    assert float(np.asarray(model.layers[0].steps)) == 8.0


def test_a_closure_that_is_run_again_begins_anew() -> None:
    own = cluster("simulated", 2)
    strategy = sd.ParameterServerStrategy(own)
    with strategy.scope():
        count, seen = sd.Variable(0.0, aggregation=FIRST), sd.Variable(0.0, aggregation=FIRST)
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function(seconds=0.01)
    def step() -> None:
        count.assign_add(1.0)
        seen.assign(count.value)

    own.faults.crash("worker:0", at=0.015, restart_after=0.001)
    for _ in range(6):
        coordinator.schedule(step)
    coordinator.join()
    assert any(instant.category == "retry" for instant in own.trace.instants)
    assert float(count.numpy()) == 6.0 and float(seen.numpy()) <= 6.0
