"""Backup workers (table T2): a step does not wait for the slowest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.hardware import Device, Exponential, Network

NOTHING = Network(bandwidth=1e18, latency=0.0)


def mean_step_s(workers: int, backups: int, steps: int, seed: int, jitter: Any = None) -> float:
    """Seconds a step of one second that is stretched by random factors, without a network."""
    device = Device(jitter=Exponential() if jitter is None else jitter)
    cluster = sd.Cluster({"worker": workers}, seed=seed, hardware=device, network=NOTHING, numerics="off")
    strategy = sd.MultiWorkerMirroredStrategy(cluster, backup_workers=backups)
    with strategy.scope():
        v = sd.Variable(0.0)

    @sd.function(seconds=1.0)
    def step() -> None:
        strategy.run(lambda: sd.get_replica_context().all_reduce("sum", v.value * 2.0))

    for _ in range(steps):
        step()
    return cluster.now / steps


def harmonic(n: int) -> float:
    return sum(1.0 / k for k in range(1, n + 1))


def test_waiting_for_96_of_100_takes_the_difference_of_harmonic_numbers() -> None:
    expected = harmonic(100) - harmonic(4)
    assert expected == pytest.approx(3.104, abs=5e-4)
    # The standard error of 200 steps is 1 %; waiting for one worker less or more would be 6 or 8 % off.
    assert mean_step_s(100, 4, 200, 1) == pytest.approx(expected, rel=0.03)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("k", "expected"), [(100, 5.187), (98, 3.687), (96, 3.104), (95, 2.904), (90, 2.258), (75, 1.371), (50, 0.688)])
def test_t2_waiting_for_k_of_100(k: int, expected: float) -> None:
    assert mean_step_s(100, 100 - k, 20_000, k) == pytest.approx(expected, rel=0.01)


def test_with_equal_step_times_backup_workers_gain_nothing() -> None:
    from simdist.hardware import NoJitter

    assert mean_step_s(6, 2, 5, 0, NoJitter()) == pytest.approx(mean_step_s(6, 0, 5, 0, NoJitter()), rel=1e-9)


def test_a_dropped_gradient_is_never_applied_and_the_others_stand_for_it() -> None:
    cluster = sd.Cluster({"worker": 4}, network=NOTHING)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, backup_workers=1)
    with strategy.scope():
        v = sd.Variable(0.0)
        optimizer = sd.Optimizer(sd_sgd())
    cluster.faults.slow("worker:2", 10.0, at=0.0)

    @sd.function(seconds=1.0)
    def step(gradient: Any) -> None:
        strategy.run(lambda g: optimizer.apply_gradients([(g, v)]), args=(gradient,))

    gradients = sd.PerReplica([np.float32(1.0), np.float32(2.0), np.float32(100.0), np.float32(3.0)])
    strategy.cluster.world.clock.sleep(1e-9)
    for _ in range(5):
        step(gradients)
    # Three quarters of the replicas speak for all: (1 + 2 + 3) * 4 / 3 in each step.
    assert v.numpy() == pytest.approx(-5 * 8.0)
    assert cluster.now == pytest.approx(5.0, rel=1e-3)
    assert {mark.lane for mark in cluster.trace.instants if mark.category == "drop"} == {"worker:2"}


def sd_sgd() -> Any:
    import optax

    return optax.sgd(1.0)


@pytest.mark.parametrize("backups", [-1, 2, 5])
def test_some_replicas_have_to_be_waited_for(backups: int) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="backup_workers"):
        sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), backup_workers=backups)


@pytest.mark.parametrize("backups", [True, 1.0, float("nan"), "1"])
def test_number_of_backup_workers_is_a_whole_number(backups: Any) -> None:
    with pytest.raises(TypeError, match="backup_workers"):
        sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), backup_workers=backups)


def test_averages_of_variables_need_all_replicas() -> None:
    # An average of some that is divided by the number of all would make every variable smaller.
    with pytest.raises(sd.errors.InvalidArgumentError, match="sync_every"):
        sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), backup_workers=1, sync_every=2)


def test_mean_without_the_slowest_is_the_mean_of_those_who_came() -> None:
    cluster = sd.Cluster({"worker": 4}, network=NOTHING)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, backup_workers=1)
    with strategy.scope():
        v = sd.Variable(0.0, aggregation=sd.VariableAggregation.MEAN)
    cluster.faults.slow("worker:2", 10.0, at=0.0)

    @sd.function(seconds=1.0)
    def step(value: Any) -> Any:
        def replica(value: Any) -> Any:
            value = value * 1.0  # takes the second, or ten
            v.assign(value)
            return sd.get_replica_context().all_reduce("mean", value), 2.0 * value

        means, doubled = strategy.run(replica, args=(value,))
        return means, strategy.reduce("mean", doubled, None)

    values = sd.PerReplica([np.float32(1.0), np.float32(2.0), np.float32(100.0), np.float32(3.0)])
    strategy.cluster.world.clock.sleep(1e-9)
    in_replicas, across = step(values)
    assert [float(found) for found in (strategy.local_results(in_replicas)[0], across, v)] == [2.0, 4.0, 2.0]
