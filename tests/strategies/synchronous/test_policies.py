"""Policies of a step: who may follow which, one that a user writes, and backup workers (table T2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist.collectives.compression import TopK
from simdist.hardware import Device, Exponential, Network
from simdist.program.operations import Program
from simdist.strategies.communication import CommunicationOptions
from simdist.strategies.synchronous import StepOutcome, SynchronousStrategy
from simdist.strategies.synchronous.elastic import Elastic
from simdist.strategies.synchronous.local_steps import LocalSteps
from simdist.strategies.synchronous.policies import EveryReplica, OverAnother, StepPolicy, WithBackups

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


def backed(slow: str) -> Any:
    cluster = sd.Cluster({"worker": 4})
    cluster.faults.slow(slow, 50.0, at=0.0)
    return sd.MultiWorkerMirroredStrategy(cluster, backup_workers=1)


def test_copies_that_replicas_have_assigned_are_not_trained_without_some_of_them() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), backup_workers=1)
    with strategy.scope():
        v, optimizer = sd.Variable(8.0, name="v"), sd.Optimizer(optax.sgd(1.0))
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(1.0, v)])))
    step()
    strategy.run(lambda: v.assign(v.value * 0.5))
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"values of their own to v, and with backup_workers .* would miss the update"):
        step()
    assert strategy.local_results(v) == (2.5, 2.5, 2.5)


@pytest.mark.parametrize("slow", [0, 2])
def test_what_a_dropped_replica_had_is_missing_inside_and_outside_of_the_step(slow: int) -> None:
    strategy = backed(f"worker:{slow}")
    with strategy.scope():
        weight, optimizer = sd.Variable(np.float32(1.0)), sd.Optimizer(sd_sgd())

    @sd.function
    def step(rows: Any) -> Any:
        def replica(rows: Any) -> Any:
            optimizer.apply_gradients([(weight.value * 0, weight)])
            return rows * weight.value

        mine = strategy.run(replica, args=(rows,))
        return strategy.reduce("sum", mine, axis=0), mine

    inside, mine = step(sd.PerReplica([np.arange(2, dtype=np.float32) + 2 * rank for rank in range(4)]))
    kept = [row for row in range(8) if row // 2 != slow]
    assert float(inside) == sum(kept)
    assert float(strategy.reduce("sum", mine, axis=0)) == sum(kept)
    assert np.asarray(strategy.gather(mine, axis=0)).tolist() == kept
    assert [part.tolist() for part in strategy.local_results(mine)] == np.reshape(kept, (3, 2)).tolist()


def test_values_of_all_replicas_are_refused_in_a_step_that_does_not_wait_for_all() -> None:
    strategy = backed("worker:2")
    step = sd.function(lambda rows: strategy.run(lambda row: sd.get_replica_context().all_gather(row[None], 0), args=(rows,)))
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"all_gather of .* needs what all replicas have"):
        step(sd.PerReplica([np.float32(rank) for rank in range(4)]))


# -- who may follow which ----------------------------------------------------------------------------------------------


class TwoReplicas(SynchronousStrategy):
    """Replicas on two workers, for any policy."""

    def replica_devices(self) -> list[str]:
        return ["worker:0", "worker:1"]


def two_replicas(policy: StepPolicy | None = None, options: CommunicationOptions | None = None) -> TwoReplicas:
    return TwoReplicas(sd.Cluster({"worker": 2}, network=NOTHING), options, policy)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: WithBackups(2), None, "backup_workers=2 must be 0 or more, and fewer than the 2 replicas"),
        (lambda: WithBackups(1, LocalSteps(2)), None, "with sync_every no gradients"),
        (lambda: WithBackups(1), CommunicationOptions(compression=TopK()), "messages of TopK are gathered from all replicas"),
        (lambda: Elastic(LocalSteps(2)), None, "on_failure='continue' needs one program that drives all workers, and sync_every=1"),
        (lambda: Elastic(WithBackups(2)), None, "some have to be waited for"),
        (lambda: LocalSteps(3), CommunicationOptions(num_packs=2), "num_packs of communication_options .* sync_every=3"),
    ],
)
def test_policy_that_the_replicas_cannot_follow_is_refused(
    make: Callable[[], StepPolicy], options: CommunicationOptions | None, message: str
) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=message):
        two_replicas(make(), options)


@pytest.mark.parametrize("options", [{"backup_workers": 1}, {"on_failure": "continue"}])
def test_launched_mains_cannot_give_up_or_go_on_without_each_other(options: dict[str, Any]) -> None:
    def main() -> None:
        sd.MultiWorkerMirroredStrategy(**options)

    with pytest.raises(sd.errors.InvalidArgumentError, match="one program"):
        sd.Cluster({"worker": 2}).launch(main).join()


@pytest.mark.parametrize("policy", [LocalSteps(2), Elastic()])
def test_policy_that_counts_for_a_strategy_is_refused_by_another(policy: StepPolicy) -> None:
    two_replicas(policy)
    with pytest.raises(sd.errors.InvalidArgumentError, match="Make one for each strategy"):
        two_replicas(policy)


def test_going_on_goes_with_backup_workers() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), backup_workers=1, on_failure="continue")
    assert isinstance(strategy.policy, Elastic)
    assert (strategy.policy.backup_workers, strategy.policy.local_updates) == (1, False)


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, EveryReplica), ({"backup_workers": 1}, WithBackups), ({"sync_every": 2}, LocalSteps), ({"on_failure": "continue"}, Elastic)],
)
def test_arguments_of_a_strategy_choose_its_policy(options: dict[str, Any], kind: type) -> None:
    assert type(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), **options).policy) is kind


# -- one that a user writes --------------------------------------------------------------------------------------------


class Recorded(OverAnother):
    """Notes what it is asked, and takes each step twice."""

    def __init__(self) -> None:
        super().__init__(EveryReplica())
        self.calls: list[tuple[Any, ...]] = []

    def is_local(self, variable: sd.Variable) -> bool:
        return variable.name == "local"

    def step(self, strategy: SynchronousStrategy, arguments: Sequence[Any], take: Callable[[], StepOutcome]) -> StepOutcome:
        self.calls.append(("step", *arguments))
        take()
        return take()

    def before(self, strategy: SynchronousStrategy, programs: Sequence[Program]) -> None:
        self.calls.append(("before", len(programs)))

    def after(self, strategy: SynchronousStrategy, programs: Sequence[Program]) -> None:
        self.calls.append(("after", len(programs)))


def test_strategy_asks_the_policy_that_it_was_given() -> None:
    policy = Recorded()
    strategy = two_replicas(policy)
    with strategy.scope():
        shared, local = sd.Variable(0.0, name="shared"), sd.Variable(0.0, name="local")

    @sd.function
    def step(x: float) -> None:
        shared.assign_add(x)

    with strategy.scope():
        step(2.0)
    assert policy.calls == [("step", 2.0), *[("before", 2), ("after", 2)] * 2]
    assert float(shared) == 4.0
    assert (shared.placement.spread, local.placement.spread) == ("shards", "replicas")


def test_what_a_policy_raises_after_a_step_is_raised() -> None:
    class Impatient(EveryReplica):
        def after(self, strategy: SynchronousStrategy, programs: Sequence[Program]) -> None:
            raise sd.errors.DeadlineExceededError("too slow")

    with pytest.raises(sd.errors.DeadlineExceededError, match="too slow"):
        two_replicas(Impatient()).run(lambda: 1)
