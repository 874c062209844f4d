"""What training makes of messages that are lost, late or repeated, and of machines that are lost: exactly once, and no hang."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.chaos import Chips, Disturbance, Scenario, Wires, examine
from simdist.errors import DeadlineExceededError, TimedOutError, UnavailableError
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S
from simdist.runtime.simulated.detection import SILENCE_S

STEPS = 12


def counting(plan: Callable[[sd.Cluster], Any], workers: int = 2, servers: int = 2, seed: int = 0) -> tuple[sd.Cluster, float]:
    """Steps that add 1 to a counter on a server, under some faults: the cluster and the counter."""
    cluster = sd.Cluster({"worker": workers, "ps": servers}, seed=seed)
    plan(cluster)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        counter = sd.Variable(np.zeros((2,), np.float32))
        other = sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def step() -> Any:
        counter.assign_add(np.ones((2,), np.float32) + 0.0 * other.value)
        return other.assign_add(1.0)

    for _ in range(STEPS):
        coordinator.schedule(step)
    coordinator.join()
    counted = float(counter.numpy()[0])
    # A step that was tried again may have counted at one server before.
    assert abs(counted - float(other.numpy())) <= retries(cluster)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster.close()
    return cluster, counted


def retries(cluster: sd.Cluster) -> int:
    return len(cluster.trace.instants.where(category="retry"))


EVERYBODY = ["chief", "worker:0", "worker:1", "ps:0", "ps:1"]


def test_whatever_comes_twice_counts_once() -> None:
    cluster, counted = counting(lambda cluster: cluster.faults.duplicate(EVERYBODY, EVERYBODY, at=0.0))
    assert (counted, retries(cluster)) == (STEPS, 0)


def test_updates_really_come_twice_at_the_server_which_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from simdist.runtime.simulated.server_loop import ServerLoop

    received: list[Any] = []
    receive = ServerLoop.receive
    monkeypatch.setattr(ServerLoop, "receive", lambda self, *what: (received.append(what[0].identity), receive(self, *what))[1])
    counting(lambda cluster: cluster.faults.duplicate(EVERYBODY, EVERYBODY, kind="update", at=0.0))
    assert len(received) == 4 * STEPS  # two variables, each of them twice
    assert len(set(received)) <= 2 * STEPS


@pytest.mark.parametrize("kind", ["read", "read_reply", "closure", "closure_reply", "update"])
def test_a_message_that_is_lost_is_tried_again_and_counts_once(kind: str) -> None:
    source, target = {"read": ("worker:0", ["ps:0", "ps:1"]), "read_reply": (["ps:0", "ps:1"], "worker:0")}.get(kind, ("chief", "worker:0"))
    if kind in ("closure_reply", "update"):
        source, target = "worker:0", ["chief", "ps:0", "ps:1"]
    cluster, counted = counting(lambda cluster: cluster.faults.drop(source, target, kind=kind, at=0.0, until=CALL_TIMEOUT_S / 2))
    assert retries(cluster) >= 1
    # A step whose reply was lost has counted; one whose update was lost may have counted at one server of two.
    assert STEPS <= counted <= STEPS + retries(cluster)
    if kind in ("read", "read_reply", "closure"):
        assert counted == STEPS


def test_messages_that_are_lost_by_chance_are_the_same_ones_on_every_run() -> None:
    def lossy(cluster: sd.Cluster) -> None:
        cluster.faults.drop(EVERYBODY, EVERYBODY, at=0.0, until=60.0, probability=0.05)
        cluster.faults.delay(EVERYBODY, EVERYBODY, 0.01, 0.05, at=0.0, probability=0.5)
        cluster.faults.duplicate(EVERYBODY, EVERYBODY, at=0.0, probability=0.5)

    digests = [counting(lossy, seed=seed)[0].trace.digest() for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


def test_messages_that_overtake_each_other_change_no_count() -> None:
    cluster, counted = counting(lambda cluster: cluster.faults.delay(EVERYBODY, EVERYBODY, 0.0, 0.5, at=0.0))
    assert (counted, retries(cluster)) == (STEPS, 0)


def test_a_worker_whose_heartbeats_are_lost_is_replaced_and_comes_back() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    cluster.faults.drop("worker:0", "chief", kind="heartbeat", at=1.5, until=20.5)
    beliefs = []
    for time_s in (1.0, 5.0, 1.5 + SILENCE_S + 2.0, 20.0, 23.0):
        sd.sleep(time_s - cluster.now, cluster)
        beliefs.append([cluster.engine.is_believed_up(f"worker:{index}") for index in range(2)])
    assert beliefs == [[True, True], [True, True], [False, True], [False, True], [True, True]]


def test_a_wait_that_nothing_can_end_is_an_error_also_where_heartbeats_come_by_chance() -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 1})
    sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    cluster.faults.drop([f"worker:{index}" for index in range(3)], "chief", kind="heartbeat", at=0.0, probability=0.5)
    with pytest.raises(DeadlineExceededError):
        cluster.world.clock.wait(cluster.world.clock.gate(), "nothing")


# -- machines that are lost -------------------------------------------------------------------------------------------


def test_a_lost_worker_is_noticed_when_its_heartbeats_do_not_come_and_its_work_is_done_by_another() -> None:
    cluster, counted = counting(lambda cluster: cluster.faults.lose_host("worker:0", after_steps=2))
    (lost,) = cluster.trace.instants.where(category="lose_host")
    (found,) = cluster.trace.instants.where(category="detect")
    assert (lost.lane, found.lane) == ("worker:0", "worker:0")
    assert SILENCE_S <= found.time_s - lost.time_s < SILENCE_S + 2.5
    assert STEPS <= counted <= STEPS + retries(cluster)
    assert not cluster.trace.instants.where(category="crash")


def test_a_crash_in_the_same_place_is_noticed_at_once() -> None:
    cluster, _ = counting(lambda cluster: cluster.faults.crash("worker:0", after_steps=2))
    (crash,) = cluster.trace.instants.where(category="crash")
    assert cluster.trace.instants.where(category="detect")[0].time_s - crash.time_s < 0.01


@pytest.mark.parametrize("back", [None, 1.0])
def test_a_lost_server_ends_training_with_an_error_after_time_outs(back: float | None) -> None:
    with pytest.raises(UnavailableError if back is None else Exception) as caught:
        counting(lambda cluster: cluster.faults.lose_host("ps:0", after_steps=3, restart_after=back))
    assert isinstance(caught.value, (TimedOutError, UnavailableError, sd.errors.AbortedError))


def summing(plan: Callable[[sd.Cluster], Any], on_failure: str, steps: int = 4, idle_s: float = 0.0) -> tuple[sd.Cluster, list[float]]:
    cluster = sd.Cluster({"worker": 3})
    plan(cluster)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure=on_failure)
    with strategy.scope():
        total = sd.Variable(np.zeros((2,), np.float32), aggregation=sd.VariableAggregation.SUM)

    @sd.function
    def step() -> None:
        strategy.run(lambda: total.assign_add(np.full((2,), 6.0, np.float32) / sd.get_replica_context().num_replicas_in_sync))

    sd.sleep(idle_s, cluster)
    for _ in range(steps):
        step()
    return cluster, total.numpy().tolist()


def test_survivors_go_on_without_a_lost_replica_when_it_was_silent_for_long_enough() -> None:
    cluster, total = summing(lambda cluster: cluster.faults.lose_host("worker:1", after_steps=2), "continue")
    assert total == [24.0, 24.0]
    (lost,) = cluster.trace.instants.where(category="lose_host")
    (found,) = cluster.trace.instants.where(category="detect")
    assert SILENCE_S <= found.time_s - lost.time_s < SILENCE_S + 2.5
    cluster.close()


def test_a_lost_replica_that_starts_again_before_it_is_missed_joins_with_copies() -> None:
    cluster, total = summing(lambda cluster: cluster.faults.lose_host("worker:1", after_steps=2, restart_after=1.0), "continue")
    assert total == [24.0, 24.0]
    assert cluster.trace.spans.where(category="read", name="variables of a survivor")
    cluster.close()


def test_without_survivors_a_lost_replica_ends_the_step_which_leaves_no_mark() -> None:
    with pytest.raises(UnavailableError, match="worker:1"):
        summing(lambda cluster: cluster.faults.lose_host("worker:1", after_steps=2), "raise")


@pytest.mark.parametrize("kind", ["duplicate", "delay", "slow_link"])
def test_collectives_end_with_the_same_numbers_whatever_the_way_does_to_their_transfers(kind: str) -> None:
    def plan(cluster: sd.Cluster) -> None:
        workers = [f"worker:{index}" for index in range(3)]
        figures = {"delay": {"seconds": 0.1, "spread": 0.2}, "slow_link": {"bandwidth_factor": 50.0, "latency_factor": 20.0}}
        getattr(cluster.faults, kind)(workers, workers, at=0.0, **figures.get(kind, {}))

    calm, expected = summing(lambda cluster: None, "raise")
    cluster, total = summing(plan, "raise")
    assert total == expected == [24.0, 24.0]
    assert cluster.now > calm.now or kind == "duplicate"
    cluster.close()


def test_a_machine_that_is_lost_before_the_first_step_is_missed_and_training_goes_on() -> None:
    cluster, total = summing(lambda cluster: cluster.faults.lose_host("worker:1", at=0.5), "continue", idle_s=1.0)
    assert total == [24.0, 24.0]
    cluster.close()


def test_a_machine_that_is_lost_when_its_process_was_dead_surprises_nobody() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash("worker:1", after_steps=2)
        cluster.faults.lose_host("worker:1", when=lambda cluster: not cluster.world.tasks["worker:1"].alive, restart_after=0.001)

    cluster, total = summing(plan, "continue", steps=8)
    assert total == [48.0, 48.0]
    assert cluster.now < 1.0
    cluster.close()


def test_variables_do_not_come_from_a_machine_that_has_started_again_without_them() -> None:
    scenario = Scenario(
        workload="elastic",
        options={"steps": 3, "batch": 6, "momentum": False},
        workers=5,
        wires=Wires(bandwidth=327000000.0, latency_s=0.000113),
        disturbances=(
            Disturbance(kind="lose_host", task="worker:3", at_s=0.0, figures={"restart_after": 4.09e-05}),
            Disturbance(kind="lose_host", task="worker:0", at_s=4.09e-05, figures={"restart_after": 1.36e-05}),
            Disturbance(kind="lose_host", task="worker:3", at_s=0.33, figures={"restart_after": 0.18}),
        ),
    )
    assert examine(replace(scenario, chips=Chips(launch_overhead_s=0.08)), again=False, forgotten=False) == []
