"""Parameter servers that die and come back: what survives, what counts once, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import InvalidArgumentError, UnavailableError
from simdist.runtime.simulated import chain, server_recovery
from tests.coordinator.rounds_of_training import Trained, killed, moments, trained

SAFE = {"recovery": "replica", "exactly_once": True}
CLOSURES = 24


@pytest.fixture(scope="module")
def undisturbed() -> Trained:
    return trained(CLOSURES, mode="sync", **SAFE)


# -- a copy on the next server --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(10))
def test_a_server_that_dies_at_any_moment_leaves_the_bits_of_the_run_without_the_crash(undisturbed: Trained, number: int) -> None:
    at = moments(10, undisturbed.cluster.now)[number]
    kind = "lose_host" if number % 5 == 4 else "crash"
    result = trained(CLOSURES, killed(kind, f"ps:{number % 2}", at), mode="sync", **SAFE)
    assert result.cluster.now > undisturbed.cluster.now + server_recovery.SERVER_RESTART_S / 2
    assert result.bits() == undisturbed.bits()


@pytest.mark.slow
@pytest.mark.parametrize("number", sampled(range(50), range(0, 50, 5)))
def test_a_server_that_dies_at_any_of_50_moments(undisturbed: Trained, number: int) -> None:
    at = np.random.default_rng(number).uniform(0.0, undisturbed.cluster.now)
    result = trained(CLOSURES, killed(("crash", "lose_host")[number % 2], f"ps:{number % 3 % 2}", at), mode="sync", **SAFE)
    assert result.bits() == undisturbed.bits()


@pytest.mark.parametrize("restart_after", [0.0, 0.003, 5.0])
def test_a_server_that_is_started_again_by_a_fault_is_restored_then(undisturbed: Trained, restart_after: float) -> None:
    result = trained(CLOSURES, killed("crash", "ps:0", 0.002, restart_after=restart_after), mode="sync", **SAFE)
    assert result.bits() == undisturbed.bits()
    (back,) = [span for span in result.cluster.trace.spans.where(category="setup") if span.lane == "ps:0"]
    assert back.start_s == pytest.approx(0.002 + restart_after)
    assert back.facts["bytes"] == 48  # three weights with two moments each, two counts of steps, and the count


def test_both_servers_die_one_after_the_other_and_nothing_is_lost(undisturbed: Trained) -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:0", at=0.001)
        cluster.faults.crash("ps:1", at=2.0)
        cluster.faults.crash("ps:0", at=4.0)

    result = trained(CLOSURES, plan, mode="sync", **SAFE)
    assert result.bits() == undisturbed.bits()


@pytest.mark.parametrize("second_s", [0.0015, 0.5])
def test_a_server_that_dies_with_its_copy_is_lost_and_says_so(second_s: float) -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:0", at=0.0015)
        cluster.faults.crash("ps:1", at=second_s)

    with pytest.raises(UnavailableError, match="The copy of ps:0 on ps:1 was lost too"):
        trained(CLOSURES, plan, mode="sync", **SAFE)


@pytest.mark.parametrize("first", ["ps:0", "ps:1"])
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_of_two_servers_that_are_lost_the_error_explains_the_one_that_it_names(mode: Any, first: str) -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash(first, at=0.0015, restart_after=0.01)
        cluster.faults.crash("ps:1" if first == "ps:0" else "ps:0", at=0.0018, restart_after=0.001)

    with pytest.raises(UnavailableError, match=r"^(ps:\d) .* The copy of \1 on ps:\d was lost too"):
        trained(CLOSURES, plan, mode=mode, **SAFE)


def test_a_copy_is_made_again_when_the_next_server_is_back() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:1", at=0.001)
        cluster.faults.slow("worker:0", 1000.0, at=0.0)

    result = trained(CLOSURES, plan, mode="sync", **SAFE)
    recoveries = result.cluster.engine.world.recoveries  # type: ignore[attr-defined]
    assert [recoveries[name].has_copy for name in ("ps:0", "ps:1")] == [True, True]


@pytest.mark.parametrize("worker", ["worker:0", "worker:2"])
@pytest.mark.sample(2)
def test_asynchronous_closures_count_exactly_once_whoever_dies(worker: str) -> None:
    for at in moments(12, 0.005):

        def plan(cluster: sd.Cluster, at: float = at) -> None:
            cluster.faults.crash(worker, at=at, restart_after=0.0005)
            cluster.faults.crash("ps:0", at=at + 0.0007, restart_after=0.1)

        result = trained(40, plan, **SAFE)
        assert result.weights["count"] == 40.0


def test_without_exactly_once_a_closure_may_count_twice() -> None:
    counts = [float(trained(40, killed("crash", "worker:0", at, restart_after=0.0005)).weights["count"]) for at in moments(40, 0.005)]
    assert set(counts) == {40.0, 41.0}


def test_a_copy_costs_bytes_and_time() -> None:
    with_copy, without = trained(CLOSURES, mode="sync", **SAFE), trained(CLOSURES, mode="sync")
    assert with_copy.bits() == without.bits()
    assert with_copy.cluster.now > without.cluster.now
    sent = [run.cluster.trace.totals[("ps:0", "bytes_sent")] for run in (with_copy, without)]
    assert sent[0] > sent[1]


# -- what others rely on --------------------------------------------------------------------------------------------------


def test_the_default_raises_as_tensorflow_does() -> None:
    with pytest.raises(UnavailableError):
        trained(CLOSURES, killed("crash", "ps:0", 0.001, restart_after=0.1))


def test_two_strategies_on_one_cluster_have_one_recovery() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    for _ in range(2):
        sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, recovery="replica"))
    with pytest.raises(InvalidArgumentError, match="another recovery already"):
        sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, recovery="checkpoint"))


def test_a_change_is_confirmed_when_the_copy_has_it_or_there_is_none() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, recovery="replica"))
    world = cluster.engine.world  # type: ignore[attr-defined]
    kept: chain.Chain = world.recoveries["ps:0"]
    events: list[str] = []

    def change(name: str) -> server_recovery.Change:
        return server_recovery.Change(8, (), lambda: events.append(f"{name} undone"), lambda: events.append(f"{name} done"))

    kept.changed(change("first"))
    kept.changed(change("second"))
    assert events == []
    cluster.engine.sleep(0.1)
    assert events == ["first done", "second done"]
    kept.changed(change("third"))
    kept.changed(change("fourth"))
    world.crash(world.tasks["ps:0"])
    assert events[2:] == ["fourth undone", "third undone"]


@pytest.mark.parametrize("advice", ["sleep", "schedule"])
def test_a_look_while_a_server_gets_its_variables_back_says_what_brings_them(advice: str) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, recovery="replica")
    with strategy.scope():
        first, second = sd.Variable(np.float32(1.0)), sd.Variable(np.float32(2.0))
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: (first.assign_add(1.0), second.assign_add(1.0))))
    coordinator.join()
    cluster.faults.crash("ps:0", at=cluster.now, restart_after=0.5)
    sd.sleep(0.1, cluster)
    for look in (first.numpy, lambda: first.assign(5.0)):
        with pytest.raises(UnavailableError, match=f"ps:0 has crashed, and does not have its variables back yet;.*{advice}"):
            look()
    assert float(second.numpy()) == 3.0
    coordinator.join()  # brings nothing: no closure waits
    with pytest.raises(UnavailableError, match="ps:0 has crashed"):
        first.numpy()
    if advice == "sleep":
        sd.sleep(1.0, cluster)
    else:
        coordinator.schedule(sd.function(lambda: first.value))
        coordinator.join()
    assert float(first.numpy()) == 2.0


def test_an_update_that_waits_for_another_server_counts_once_however_many_come_meanwhile() -> None:
    cluster = sd.Cluster({"worker": 4, "ps": 3})
    strategy = sd.ParameterServerStrategy(cluster, recovery="replica")
    with strategy.scope():
        busy, away = sd.Variable(np.float32(0.0)), sd.Variable(np.float32(0.0))
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
    coordinator, one = sd.ClusterCoordinator(strategy), np.float32(-1.0)
    both = sd.function(lambda: optimizer.apply_gradients([(one, busy), (one, away)]))
    alone = sd.function(lambda: optimizer.apply_gradients([(one, busy)]))
    for step in (both, alone):
        coordinator.schedule(step)
    coordinator.join()
    cluster.faults.crash("ps:1", at=cluster.now + 1e-4, restart_after=20.0)
    for step in [both, both, *[alone] * 4_000]:
        coordinator.schedule(step)
    coordinator.join()
    assert (float(busy.numpy()), float(away.numpy())) == (4_004.0, 3.0)


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_an_assignment_between_steps_outlives_a_server_whose_last_change_was_not_copied_yet(mode: Any) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, recovery="replica", mode=mode)
    with strategy.scope():
        number = sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)
    cluster.faults.delay("ps:0", "ps:1", 2.0, kind="copy", at=0.0, until=5.0)
    cluster.faults.crash("ps:0", at=1.5)
    coordinator.schedule(sd.function(lambda: number.assign_add(1.0)))
    sd.sleep(1.0, cluster)
    number.assign(100.0)
    coordinator.join()
    # The update was applied before the assignment; in a round it is applied when the servers have it for sure.
    assert float(number.numpy()) == (100.0 if mode == "async" else 101.0)


@pytest.mark.parametrize("options", [{"mode": "sync"}, {"mode": "bounded", "staleness": 1}, {"mode": "async"}])
@pytest.mark.parametrize("at", [0.75, 1.2])
def test_changes_count_once_where_variables_were_joined_before_their_server_dies(options: dict[str, Any], at: float) -> None:
    def counted(crash_s: float | None) -> tuple[float, float]:
        cluster = sd.Cluster({"worker": 2, "ps": 2})
        strategy = sd.ParameterServerStrategy(cluster, recovery="replica", **options)
        with strategy.scope():
            a, _, b, _ = [sd.Variable(np.zeros(1, np.float32)) for _ in range(4)]  # a and b are on ps:0
            optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
        coordinator, one = sd.ClusterCoordinator(strategy), np.ones(1, np.float32)
        cluster.faults.delay("ps:0", "ps:1", 0.5, kind="copy", at=0.0)  # the copy lags behind
        if crash_s is not None:
            cluster.faults.crash("ps:0", at=crash_s, restart_after=0.5)
        apart = sd.function(lambda: [v.assign_add(k * one) for v, k in ((a, 1.0), (b, 10.0))], seconds=0.01)
        joined = sd.function(lambda: optimizer.apply_gradients([(one, a), (one, b)]), seconds=0.01)
        for step in (apart, apart, joined, joined):
            coordinator.schedule(step)
        coordinator.join()
        return float(a.numpy()[0]), float(b.numpy()[0])

    assert counted(at) == counted(None)


@pytest.mark.parametrize(("recovery", "left"), [("replica", 12.0), ("checkpoint", 4.0)])
def test_a_server_that_dies_again_before_its_variables_are_back_gets_them_the_next_time(recovery: Any, left: float) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, recovery=recovery)
    size = np.ones((1000, 1000), np.float32)  # takes milliseconds to come back
    with strategy.scope():
        table = sd.Variable(0.0 * size)
    coordinator = sd.ClusterCoordinator(strategy)
    for at in (2.2, 2.701):
        cluster.faults.crash("ps:0", at=at, restart_after=0.5)
    step = sd.function(lambda: table.assign_add(size), seconds=0.5)
    for _ in range(12):
        coordinator.schedule(step)
    coordinator.join()
    assert float(table.numpy()[0, 0]) == left


@pytest.mark.parametrize("at", [0.9996, 1.0015])
def test_a_step_of_the_chief_waits_for_a_server_that_comes_back_and_counts_once(at: float) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2), recovery="replica", exactly_once=True)
    size = np.ones(400_000, np.float32)
    with strategy.scope():
        number = sd.Variable(0.0 * size)
    cluster.faults.crash("ps:1", at=at, restart_after=3.0)
    step = sd.function(lambda: number.assign_add(size), seconds=1.0)
    for _ in range(3):
        step()
    assert cluster.now > 4.0
    assert set(number.numpy().tolist()) == {3.0}


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("recovery", ["replica", "checkpoint"])
def test_a_server_without_variables_loses_none(recovery: Any, mode: Any) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 3}, disks=sd.hardware.nvme)
    strategy = sd.ParameterServerStrategy(cluster, recovery=recovery, mode=mode)
    with strategy.scope():
        numbers = [sd.Variable(np.zeros(2, np.float32)) for _ in range(2)]  # on ps:0 and ps:1
    if recovery == "replica":
        cluster.faults.crash("ps:0", at=0.25)  # the next one of ps:2
    cluster.faults.crash("ps:2", at=0.35, restart_after=1.0, keep_disk=recovery == "replica")
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(lambda: [number.assign_add(np.ones(2, np.float32)) for number in numbers], seconds=0.1)
    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    assert [number.numpy().tolist() for number in numbers] == [[20.0, 20.0]] * 2


@pytest.mark.parametrize("is_built_again", [False, True])
@pytest.mark.parametrize("recovery", ["replica", "checkpoint"])
def test_what_is_lost_stays_lost_when_its_server_dies_again(recovery: Any, is_built_again: bool) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, recovery=recovery)
    with strategy.scope():
        number = sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)
    for server in ("ps:0", "ps:1"):
        cluster.faults.lose_host(server, at=1.0, restart_after=0.5)
    cluster.faults.crash("ps:0", at=100.0, restart_after=5.0)  # by then ps:1 has a copy of nothing, or of the new variables
    sd.sleep(50.0, cluster)
    with strategy.scope():
        new = [sd.Variable(0.0) for _ in range(2 * is_built_again)]
    sd.sleep(51.0, cluster)
    coordinator.schedule(sd.function(lambda: [variable.assign_add(1.0) for variable in new]))
    coordinator.join()
    assert [float(variable) for variable in new] == [1.0] * len(new)
    coordinator.schedule(sd.function(lambda: number.assign_add(1.0)))
    with pytest.raises(UnavailableError, match=r"The copy of ps:0 .* was lost too|on a disk that was lost with its machine"):
        coordinator.join()
    assert cluster.now < (107.0 if is_built_again else 102.0)  # the call was not repeated for minutes
