"""Random numbers of closures that are run again: they are those of the first run, and shift those of no other closure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

CLOSURES = 12
Fault = Callable[[sd.Cluster], Any]


def trained(fault: Fault | None = None, devices: int = 1) -> tuple[list[float], sd.Cluster]:
    """A variable that follows what dropout leaves of ones, under two workers in rounds."""
    cluster = sd.Cluster({"worker": 2, "ps": 2}, seed=0)
    strategy = sd.ParameterServerStrategy(cluster, mode="sync", exactly_once=True, recovery="replica", devices_per_worker=devices)
    with strategy.scope():
        v, dropout, optimizer = (
            sd.Variable(np.zeros(8, np.float32)),
            keras.layers.Dropout(0.5, seed=3),
            sd.Optimizer(keras.optimizers.SGD(0.1)),
        )
        dropout.build((None, 8))

    def replica() -> None:
        def loss() -> Any:
            return ((dropout(np.ones((1, 8), np.float32), training=True) - v.value) ** 2).sum()

        optimizer.apply_gradients(zip(sd.value_and_grad(loss, [v])()[1], [v], strict=True))

    step = sd.function(lambda: strategy.run(replica))
    coordinator = sd.ClusterCoordinator(strategy)
    if fault is not None:
        fault(cluster)
    for _ in range(CLOSURES):
        coordinator.schedule(step)
    coordinator.join()
    return v.numpy().tolist(), cluster


@pytest.mark.parametrize("devices", [1, 2])
def test_masks_are_those_of_the_run_in_which_no_reply_is_lost(devices: int) -> None:
    expected, calm = trained(devices=devices)
    begin_s = calm.now / 3
    found, cluster = trained(lambda cluster: cluster.faults.drop("worker:0", "chief:0", at=begin_s, until=begin_s + 3e-4), devices)
    assert cluster.trace.instants.where(category="retry")
    assert found == expected


def test_numbers_of_a_closure_that_another_worker_runs_again_are_drawn_once() -> None:
    def drawn(fault: Fault | None = None) -> tuple[list[float], sd.Cluster]:
        cluster = sd.Cluster({"worker": 2, "ps": 1}, seed=0)
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            first, generator = sd.Variable(np.zeros((), np.float32)), keras.random.SeedGenerator(1)

        @sd.function
        def step() -> Any:
            number = keras.random.uniform((), seed=generator)
            first.assign_add(number)  # counts for each run
            return number

        coordinator = sd.ClusterCoordinator(strategy)
        if fault is not None:
            fault(cluster)
        values = [coordinator.schedule(step) for _ in range(CLOSURES)]
        coordinator.join()
        numbers = [float(value.fetch()) for value in values]
        return [*numbers, float(first.numpy()) - sum(numbers)], cluster

    calm_numbers, calm = drawn()
    # The update has been applied when the worker dies, and the reply has not been sent.
    spans = list(calm.trace.spans.where(lane="worker:1", category="update"))
    death_s = spans[1].start_s + 0.9 * (spans[1].end_s - spans[1].start_s)
    numbers, cluster = drawn(lambda cluster: cluster.faults.crash("worker:1", at=death_s, restart_after=0.001))
    (retry,) = cluster.trace.instants.where(category="retry")
    *numbers, more = numbers
    assert len(set(numbers)) == CLOSURES and calm_numbers[-1] == pytest.approx(0, abs=1e-5)
    assert more == pytest.approx(numbers[int(retry.name.split()[1])], abs=1e-5)


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_a_closure_that_fails_is_no_draw(engine: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, seed=0, engine=engine))
    with strategy.scope():
        generator = keras.random.SeedGenerator(1)
    coordinator = sd.ClusterCoordinator(strategy)
    draws = sd.function(lambda: keras.random.uniform((), seed=generator))
    fails = sd.function(lambda x: sd.check_numerics(keras.random.uniform((), seed=generator) / x, "a quotient"))
    coordinator.schedule(draws)
    coordinator.schedule(fails, args=(np.float32(0),))
    with pytest.raises(InvalidArgumentError, match="a quotient"):
        coordinator.join()
    assert strategy.engine.draws_of("worker:0") == 1


@pytest.mark.parametrize("devices", [1, 2])
def test_a_step_that_is_called_on_the_coordinator_draws_other_numbers_each_time(devices: int) -> None:
    def drawn() -> list[float]:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, seed=0), devices_per_worker=devices)
        with strategy.scope():
            generator = keras.random.SeedGenerator(1)
        step = sd.function(lambda: strategy.run(lambda: keras.random.uniform((), seed=generator)))
        return [float(value) for _ in range(3) for value in np.ravel(strategy.experimental_local_results(step()))]

    numbers = drawn()
    assert len(set(numbers)) == 3 * devices and drawn() == numbers
