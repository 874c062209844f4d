"""Conformance cases B167 to B177, and C1, C4, C5, C18, C19 and C49 to C52: closures, workers and servers that fail, come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import AbortedError, CancelledError, DeadlineExceededError, InvalidArgumentError, TimedOutError, UnavailableError

MESSAGE_S = 0.01  # more than the messages of a closure without bytes take


def coordinated(workers: int = 2, servers: int = 1, **options: Any) -> tuple[sd.Cluster, sd.ClusterCoordinator, sd.Variable]:
    cluster = sd.Cluster({"worker": workers, "ps": servers})
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        count = sd.Variable(0.0, name="count")
    return cluster, sd.ClusterCoordinator(strategy), count


def counting(count: sd.Variable) -> Any:
    return sd.function(lambda: count.assign_add(count.value * 0.0 + 1.0), seconds=1.0)


def failing(error: Exception, after_s: float = 0.0) -> Callable[[], Any]:
    def closure() -> None:
        sd.sleep(after_s)
        raise error

    return closure


# -- workers ------------------------------------------------------------------------------------------------------------


def test_b167_values_survive_the_death_of_their_worker() -> None:
    cluster, coordinator, count = coordinated()
    step = sd.function(lambda: count.value + 1.0)
    fetched, other = (coordinator.schedule(step) for _ in range(2))
    assert fetched.fetch() == 1.0
    for worker in ("worker:0", "worker:1"):
        cluster.faults.crash(worker, at=cluster.now + 0.1)
    sd.sleep(10.0, cluster)
    assert fetched.fetch() == other.fetch() == float(other.get()) == 1.0


def test_b169_join_waits_while_all_workers_are_down() -> None:
    cluster, coordinator, _ = coordinated()
    for worker in ("worker:0", "worker:1"):
        cluster.faults.crash(worker, at=2.5, restart_after=5.0)
    executions: list[float] = []
    values = [coordinator.schedule(lambda: executions.append(cluster.now) or sd.sleep(1.0) or 7) for _ in range(21)]
    coordinator.join()
    assert 15.0 < cluster.now < 17.0
    assert coordinator.fetch(values) == [7] * 21 and len(executions) == 23  # as measured on TensorFlow


def test_b170_a_worker_that_never_comes_back_is_not_waited_for() -> None:
    cluster, coordinator, _ = coordinated()
    cluster.faults.crash("worker:0", at=0.5)
    values = [coordinator.schedule(lambda number=number: sd.sleep(1.0) or number) for number in range(3)]
    assert coordinator.fetch(values) == [0, 1, 2]
    cluster.faults.crash("worker:1", at=cluster.now + 0.5)
    coordinator.schedule(lambda: sd.sleep(1.0))
    with pytest.raises(DeadlineExceededError, match="restart_after="):
        coordinator.join()


# -- servers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_s", [0.5, 0.9995, 1.0005])
@pytest.mark.parametrize("worker_too", [False, True], ids=["server", "server and worker"])
def test_b172_the_death_of_a_server_is_an_unavailable_error(worker_too: bool, at_s: float) -> None:
    cluster, coordinator, count = coordinated()
    cluster.faults.crash("ps:0", at=at_s)
    if worker_too:
        cluster.faults.crash("worker:0", at=at_s - 0.01, restart_after=0.05)
    step = counting(count)
    for _ in range(6):
        coordinator.schedule(step)
    with pytest.raises((UnavailableError, AbortedError), match="ps:0"):
        coordinator.join()


def test_b173_variables_of_a_server_that_came_back_without_them_are_an_error() -> None:
    cluster, coordinator, count = coordinated()
    cluster.faults.crash("ps:0", at=0.5, restart_after=1.0)
    sd.sleep(5.0, cluster)
    with pytest.raises((UnavailableError, AbortedError), match="ps:0"):
        count.numpy()
    coordinator.schedule(counting(count))
    with pytest.raises((UnavailableError, AbortedError), match="ps:0"):
        coordinator.join()


@pytest.mark.parametrize("recovery", ["replica", "checkpoint"])
def test_b173_c02_a_server_that_recovers_ends_nothing(recovery: Any) -> None:
    cluster, coordinator, count = coordinated(servers=2, recovery=recovery)
    cluster.faults.crash("ps:0", at=2.5)
    step = counting(count)
    values = [coordinator.schedule(step) for _ in range(8)]
    coordinator.join()
    assert {value.state for value in values} == {"ready"}
    assert float(count.numpy()) == 8.0 if recovery == "replica" else float(count.numpy()) <= 8.0


@pytest.mark.parametrize("until_s", [45.0, None], ids=["passes", "stays"])
def test_b174_failures_that_pass_are_tolerated_and_others_are_not(until_s: float | None) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster), tolerated_time_outs=3)
    with coordinator.strategy.scope():
        count = sd.Variable(0.0)
    cluster.faults.drop("worker:0", "ps:0", kind="read", at=0.1, until=until_s)
    sd.sleep(0.5, cluster)
    value = coordinator.schedule(sd.function(lambda: count.value + 7.0))
    if until_s is None:
        with pytest.raises(TimedOutError, match="ps:0"):
            coordinator.join()
    else:
        assert value.fetch() == 7.0
    assert len(cluster.trace.instants.where(category="retry")) == (3 if until_s is None else 2)


def test_b175_a_user_error_beside_a_worker_that_dies_is_the_error_of_join() -> None:
    cluster, coordinator, _ = coordinated(3)
    cluster.faults.crash("worker:1", at=0.5, restart_after=1.0)
    coordinator.schedule(failing(InvalidArgumentError("of the user"), 0.5))
    others = [coordinator.schedule(lambda: sd.sleep(1.0)) for _ in range(4)]
    with pytest.raises(InvalidArgumentError, match="of the user"):
        coordinator.join()
    coordinator.join()
    for value in others:  # the one that the dead worker had, and those that waited, are cancelled because of the error of the user
        if value.state == "failed":
            with pytest.raises(CancelledError, match="of the user"):
                value.fetch()
    assert [value.state for value in others] == ["failed", "ready", "failed", "failed"]
    assert coordinator.schedule(lambda: 7).fetch() == 7


def test_b176_a_cancelled_error_is_never_the_first() -> None:
    _, coordinator, _ = coordinated()
    values = [coordinator.schedule(failing(ValueError("primary"), 1.0)), *(coordinator.schedule(lambda: sd.sleep(0.4)) for _ in range(9))]
    with pytest.raises(ValueError, match="primary"):
        coordinator.join()
    coordinator.join()
    assert [value.state for value in values] == ["failed", *["ready"] * 3, *["failed"] * 6]
    with pytest.raises(ValueError, match="primary"):
        values[0].fetch()
    for value in values[4:]:
        with pytest.raises(CancelledError, match="primary"):
            value.fetch()
    coordinator.schedule(lambda: values[-1].fetch())  # whoever asks for the value of a cancelled closure has an error of his own
    with pytest.raises(CancelledError, match="primary"):
        coordinator.join()
    assert coordinator.schedule(lambda: 1).fetch() == 1


def test_b177_evaluation_counts_each_row_once_whoever_dies() -> None:
    def evaluated(*crashes_s: float) -> tuple[dict[str, float], sd.Cluster]:
        cluster = sd.Cluster({"worker": 3, "ps": 1})
        with sd.ParameterServerStrategy(cluster).scope():
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile("sgd", "mse", metrics=["mae"])
        for index, at_s in enumerate(crashes_s):
            cluster.faults.crash(f"worker:{index}", at=at_s, restart_after=1e-3)
        x = np.arange(10, dtype=np.float32)[:, None]
        return model.evaluate(x, np.zeros_like(x), batch_size=1, verbose=0, return_dict=True), cluster

    undisturbed, cluster = evaluated()
    assert undisturbed["loss"] == pytest.approx(28.5) and undisturbed["mae"] == pytest.approx(4.5)
    again = 0
    for share in np.linspace(0.05, 0.95, 13):
        found, crashed = evaluated(share * cluster.now, 0.5 * share * cluster.now)
        assert found == pytest.approx(undisturbed, rel=1e-6)
        again += len(crashed.trace.instants.where(category="retry"))
    assert again >= 13  # so often a batch was under way on a worker that died


# -- what TensorFlow cannot do ------------------------------------------------------------------------------------------


def test_c01_rounds_give_the_result_of_one_process() -> None:
    targets = np.float32([1.0, 2.0, 6.0])
    _, coordinator, v = coordinated(3, mode="sync")
    with coordinator.strategy.scope():
        optimizer = sd.Optimizer(optax.sgd(0.25))

    def part(context: sd.InputContext) -> sd.Dataset:
        return sd.Dataset.from_tensor_slices(targets).shard(context.num_input_pipelines, context.input_pipeline_id).repeat().batch(1)

    iterator = iter(coordinator.create_per_worker_dataset(coordinator.strategy.distribute_datasets_from_function(part)))

    @sd.function
    def step(iterator: Any) -> None:
        target = next(iterator)[0]
        optimizer.apply_gradients([(jax.grad(lambda x: (x - target) ** 2)(v.value), v)])

    for _ in range(4 * 3):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    expected = 0.0
    for _ in range(4):
        expected -= 0.25 * 2 * (expected - targets.mean())
    assert float(v.numpy()) == pytest.approx(expected)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_c04_an_update_of_a_closure_that_runs_again_counts_once_if_asked(exactly_once: bool) -> None:
    counts: set[float] = set()
    for crash_s in np.linspace(0.9999, 1.0015, 17):  # the update is applied, and the worker dies before or after its reply
        cluster, coordinator, count = coordinated(2, exactly_once=exactly_once)
        cluster.faults.crash("worker:1", at=float(crash_s), restart_after=1.0)
        step = counting(count)
        for _ in range(6):
            coordinator.schedule(step)
        coordinator.join()
        counts.add(float(count.numpy()))
    assert counts == ({6.0} if exactly_once else {6.0, 7.0})


@pytest.mark.parametrize("resume", [False, True])
def test_c05_the_dataset_of_a_worker_that_comes_back_goes_on_if_asked(resume: bool) -> None:
    cluster, coordinator, _ = coordinated(1)
    cluster.faults.crash("worker:0", at=3.5, restart_after=1.0)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(100).batch(1), resume=resume))
    step = sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
    rows = [int(row) for row in coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(6)])]
    assert rows == ([0, 1, 2, 3, 4, 5] if resume else [0, 1, 2, 0, 1, 2])


def test_c18_workers_join_and_leave() -> None:
    cluster, coordinator, count = coordinated(1)
    step = counting(count)
    for _ in range(9):
        coordinator.schedule(step)
    sd.sleep(0.5, cluster)
    added = coordinator.add_worker()
    sd.sleep(3.0, cluster)
    coordinator.remove_worker("worker:0")
    coordinator.join()
    assert float(count.numpy()) == 9.0
    ran = [span.lane for span in cluster.trace.spans.where(category="closure")]
    assert ran.count("worker:0") >= 3 and ran.count(added) >= 3
    assert cluster.tasks == ["chief:0", "ps:0", added] and coordinator.strategy.workers == [added]


def test_c19_steps_are_bundled_by_themselves() -> None:
    lasted_s: dict[Any, float] = {}
    for steps_per_execution in (1, "auto"):
        cluster = sd.Cluster({"worker": 2, "ps": 1}, network=sd.hardware.Network(bandwidth=1e9, latency=1e-2))
        with sd.ParameterServerStrategy(cluster).scope():
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
        model.fit(sd.Dataset.from_tensor_slices((np.ones((8, 1), np.float32),) * 2).batch(1).repeat(), steps_per_epoch=80, verbose=0)
        lasted_s[steps_per_execution] = cluster.now
    assert lasted_s["auto"] < 0.75 * lasted_s[1]


def test_c49_an_error_leaves_a_clean_queue() -> None:
    _, coordinator, count = coordinated()
    step = counting(count)
    for number in range(20):
        values = [coordinator.schedule(failing(ValueError(str(number)), 0.1)), *(coordinator.schedule(step) for _ in range(3))]
        with pytest.raises(ValueError, match=str(number)):
            coordinator.join()
        coordinator.schedule(step).fetch()
        assert coordinator.done() and values[0].state == "failed"


def test_c50_a_lost_closure_runs_before_those_that_wait() -> None:
    cluster, coordinator, _ = coordinated(2)
    cluster.faults.crash("worker:1", at=0.5)
    order: list[int] = []
    for number in range(12):
        coordinator.schedule(lambda number=number: sd.sleep(1.0) or order.append(number))
    coordinator.join()
    assert order == [0, 1, *range(2, 12)]


@pytest.mark.parametrize("until", [None, 30.0])
def test_c51_a_worker_that_is_stopped_is_detected_and_its_late_result_refused(until: float | None) -> None:
    cluster, coordinator, count = coordinated(2, exactly_once=True)
    cluster.faults.pause("worker:1", at=0.5, until=until)
    step = counting(count)
    for _ in range(8):
        coordinator.schedule(step)
    coordinator.join()
    assert cluster.now < 15.0 and float(count.numpy()) == 8.0
    sd.sleep(40.0, cluster)
    assert float(count.numpy()) == 8.0
    assert len(cluster.trace.instants.where(category="detect")) == 1


def test_c52_a_cancelled_closure_says_whether_it_has_changed_anything() -> None:
    seen: set[tuple[bool, float]] = set()
    for crash_s in np.linspace(0.9999, 1.0015, 17):  # before or after its update is applied, or its reply is sent
        cluster, coordinator, count = coordinated(2)
        cluster.faults.crash("worker:1", at=float(crash_s))
        coordinator.schedule(failing(ValueError("first"), 0.5))
        begun, queued = coordinator.schedule(counting(count)), coordinator.schedule(counting(count))
        with pytest.raises(ValueError, match="first"):
            coordinator.join()
        with pytest.raises(CancelledError, match=r"It has changed nothing\."):
            queued.fetch()
        sd.sleep(1.0, cluster)
        seen.add((begun.state == "failed", float(count.numpy())))
        if begun.state == "failed":
            with pytest.raises(CancelledError, match=r"It had begun on worker:1: what it had changed by then counts\."):
                begun.fetch()
    assert seen == {(True, 0.0), (True, 1.0), (False, 1.0)}
