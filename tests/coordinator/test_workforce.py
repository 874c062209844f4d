"""Workers that join and leave while closures run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError


def coordinated(workers: int = 2, **options: Any) -> tuple[sd.Cluster, sd.ClusterCoordinator]:
    cluster = sd.Cluster({"worker": workers, "ps": 2}, network=options.pop("network", None))
    return cluster, sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, **options))


def counting(coordinator: sd.ClusterCoordinator) -> tuple[sd.Variable, Any]:
    with coordinator.strategy.scope():
        count = sd.Variable(0.0)
    return count, sd.function(lambda: count.assign_add(count.value * 0.0 + 1.0), seconds=1.0)


def workers_of(cluster: sd.Cluster) -> list[str]:
    return [span.lane for span in cluster.trace.spans.where(category="closure")]


def test_a_worker_that_joins_takes_closures_from_then_on() -> None:
    cluster, coordinator = coordinated(1)
    count, step = counting(coordinator)
    for _ in range(4):
        coordinator.schedule(step)
    sd.sleep(1.5, cluster)
    assert coordinator.add_worker() == "worker:1"
    assert cluster.tasks == ["chief:0", "worker:0", "ps:0", "ps:1", "worker:1"]
    assert coordinator.strategy.workers == ["worker:0", "worker:1"]
    assert "worker:1" not in coordinator.queue.idle  # the chief has not heard of it yet
    coordinator.join()
    assert float(count.numpy()) == 4.0
    assert workers_of(cluster) == ["worker:0", "worker:0", "worker:1", "worker:0"]
    (mark,) = cluster.trace.instants.where(category="resize")
    assert (mark.name, mark.lane, mark.time_s) == ("worker:1 joins", "worker:1", 1.5)


def test_a_worker_that_joins_is_watched_like_the_others() -> None:
    cluster, coordinator = coordinated(1)
    name = coordinator.add_worker()
    sd.sleep(0.1, cluster)
    cluster.faults.crash(name, at=0.5, restart_after=1.0)
    for _ in range(4):
        coordinator.schedule(lambda: sd.sleep(1.0))
    coordinator.join()
    assert [mark.lane for mark in cluster.trace.instants.where(category="detect")] == [name]
    assert cluster.now == pytest.approx(3.0, abs=0.6)


def test_the_closure_of_a_worker_that_leaves_is_given_to_another_and_its_process_ends() -> None:
    cluster, coordinator = coordinated(2)
    values = [coordinator.schedule(lambda number=number: sd.sleep(2.0) or number) for number in range(4)]
    sd.sleep(1.0, cluster)
    coordinator.remove_worker("worker:0")
    assert coordinator.strategy.workers == ["worker:1"]
    assert cluster.tasks == ["chief:0", "worker:1", "ps:0", "ps:1"]
    assert coordinator.fetch(values) == [0, 1, 2, 3]
    assert set(workers_of(cluster)) == {"worker:1"}
    assert not cluster.world.tasks["worker:0"].alive
    assert [mark.name for mark in cluster.trace.instants.where(category="retry")] == ["closure 0 is run again"]
    assert [mark.name for mark in cluster.trace.instants.where(category="resize")] == ["worker:0 leaves", "worker:0 has ended"]
    sd.sleep(100.0, cluster)
    assert not cluster.trace.instants.where(category="detect")


@pytest.mark.parametrize("leaves_s", np.linspace(1e-5, 1.02, 24).tolist())
def test_a_worker_may_leave_at_any_moment_and_every_closure_counts_once(leaves_s: float) -> None:
    cluster, coordinator = coordinated(3, exactly_once=True)
    count, step = counting(coordinator)
    values = [coordinator.schedule(step) for _ in range(9)]
    sd.sleep(leaves_s, cluster)
    coordinator.remove_worker("worker:1")
    coordinator.join()
    assert float(count.numpy()) == 9.0
    assert {value.state for value in values} == {"ready"}


@pytest.mark.parametrize("mode", ["sync", "bounded"])
def test_workers_in_rounds_come_and_go(mode: Any) -> None:
    cluster, coordinator = coordinated(2, mode=mode, **({"staleness": 1} if mode == "bounded" else {}))
    count, step = counting(coordinator)
    for _ in range(12):
        coordinator.schedule(step)
    sd.sleep(1.5, cluster)
    added = coordinator.add_worker()
    sd.sleep(2.0, cluster)
    coordinator.remove_worker("worker:0")
    coordinator.join()
    assert float(count.numpy()) == 12.0
    assert added in workers_of(cluster)


def test_names_are_not_given_again() -> None:
    cluster, coordinator = coordinated(2)
    coordinator.remove_worker("worker:1")
    assert coordinator.add_worker() == "worker:2"
    sd.sleep(1.0, cluster)
    assert coordinator.strategy.workers == ["worker:0", "worker:2"] and coordinator.queue.idle.keys() == {"worker:0", "worker:2"}
    with pytest.raises(InvalidArgumentError, match=r"There is no worker 'worker:1' to remove\. Did you mean"):
        coordinator.remove_worker("worker:1")


def test_the_last_worker_cannot_leave() -> None:
    _, coordinator = coordinated(1)
    with pytest.raises(FailedPreconditionError, match=r"worker:0 is the last worker\. Closures need one: .*add_worker"):
        coordinator.remove_worker("worker:0")
    _, coordinator = coordinated(2, mode="sync", backup_workers=1)
    with pytest.raises(FailedPreconditionError, match="backup_workers=1"):
        coordinator.remove_worker("worker:0")


def test_pipelines_that_there_are_keep_their_numbers() -> None:
    cluster, coordinator = coordinated(2)
    seen: list[tuple[str, int, int]] = []

    def numbers(context: sd.InputContext) -> sd.Dataset:
        seen.append(("made", context.num_input_pipelines, context.input_pipeline_id))
        return sd.Dataset.range(100).batch(1)

    def use_on_all(iterator: Any) -> list[tuple[str, int, int]]:
        seen.clear()
        step = sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
        for _ in coordinator.strategy.workers:
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        return sorted(seen)

    iterator = iter(coordinator.create_per_worker_dataset(coordinator.strategy.distribute_datasets_from_function(numbers)))
    assert use_on_all(iterator) == [("made", 2, 0), ("made", 2, 1)]
    coordinator.add_worker()
    sd.sleep(0.1, cluster)
    assert use_on_all(iterator) == [("made", 3, 2)]
    cluster.faults.crash("worker:1", at=cluster.now + 1.0, restart_after=0.1)
    sd.sleep(3.0, cluster)
    assert use_on_all(iterator) == [("made", 2, 1)]  # as before
    coordinator.remove_worker("worker:0")
    later = iter(coordinator.create_per_worker_dataset(coordinator.strategy.distribute_datasets_from_function(numbers)))
    assert use_on_all(later) == [("made", 2, 0), ("made", 2, 1)]


def test_a_worker_that_another_coordinator_needs_goes_on() -> None:
    cluster, first = coordinated(2)
    second = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    values = [second.schedule(lambda: sd.sleep(1.0) or 1) for _ in range(4)]
    first.remove_worker("worker:1")
    assert second.fetch(values) == [1] * 4
    assert cluster.now < 3.0 and "worker:1" in cluster.tasks and not cluster.trace.instants.where(category="retry")
    second.remove_worker("worker:1")
    assert "worker:1" not in cluster.tasks


def test_a_worker_that_is_down_or_cut_off_can_leave() -> None:
    cluster, coordinator = coordinated(3)
    cluster.faults.crash("worker:0", at=0.5, restart_after=3.0)
    cluster.faults.partition("chief:0", "worker:1", at=0.5, until=4.0)
    values = [coordinator.schedule(lambda: sd.sleep(1.0) or 1) for _ in range(6)]
    sd.sleep(0.8, cluster)
    coordinator.remove_worker("worker:0")
    coordinator.remove_worker("worker:1")
    assert coordinator.fetch(values) == [1] * 6
    sd.sleep(10.0, cluster)
    assert coordinator.schedule(lambda: 7).fetch() == 7
    assert coordinator.queue.idle.keys() == {"worker:2"}


def test_workers_join_racks_and_are_refused_by_a_torus() -> None:
    network = sd.hardware.Network(bandwidth=1e9, latency=1e-4)
    cluster, coordinator = coordinated(2, network=network.in_racks(2))
    assert [coordinator.add_worker() for _ in range(3)] == ["worker:2", "worker:3", "worker:4"]
    values = [coordinator.schedule(lambda: sd.sleep(1.0) or 1) for _ in range(5)]
    sd.sleep(0.1, cluster)
    assert sum(coordinator.fetch(values)) == 5
    _, coordinator = coordinated(2, network=network.as_torus((2, 2)))
    with pytest.raises(InvalidArgumentError, match=r"4 .*hosts"):
        coordinator.add_worker()


@pytest.mark.parametrize("engine", [{}, {"isolated": True}], ids=["shared", "isolated"])
def test_tasks_without_time_are_fixed(engine: dict[str, Any]) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, engine="in_process", **engine)))
    with pytest.raises(FailedPreconditionError, match="from beginning to end"):
        coordinator.add_worker()
    with pytest.raises(FailedPreconditionError, match="from beginning to end"):
        coordinator.remove_worker("worker:1")
    assert coordinator.strategy.workers == ["worker:0", "worker:1"] and coordinator.queue.idle.keys() == {"worker:0", "worker:1"}


def test_workers_with_variables_of_their_own_are_fixed() -> None:
    cluster, coordinator = coordinated(3)
    coordinator.remove_worker("worker:0")
    values = [coordinator.schedule(lambda: (sd.sleep(1.0), sd.get_current_worker_index())[1]) for _ in range(2)]
    assert sorted(coordinator.fetch(values)) == [0, 1]  # numbered anew
    with coordinator.strategy.scope():
        own = sd.Variable(0.0, per_worker_variable=True)
    for call in (coordinator.add_worker, lambda: coordinator.remove_worker("worker:1")):
        with pytest.raises(FailedPreconditionError, match="variables of which each worker has a copy"):
            call()
    assert cluster.tasks == ["chief:0", "worker:1", "worker:2", "ps:0", "ps:1"]
    for _ in range(4):
        coordinator.schedule(sd.function(lambda: own.assign_add(1.0)))
    coordinator.join()
    assert float(sum(own.read_all())) == 4.0


def test_a_main_of_a_task_may_add_workers() -> None:
    cluster, coordinator = coordinated(1)
    run = cluster.launch(lambda: sd.sleep(1.0) or coordinator.add_worker(), job="ps")
    for _ in range(6):
        coordinator.schedule(lambda: sd.sleep(1.0))
    coordinator.join()
    run.join()
    assert set(run.results.values()) == {"worker:1", "worker:2"}
    assert cluster.now == pytest.approx(3.0, abs=0.1)


def test_a_closure_cannot_change_the_workers_of_its_coordinator() -> None:
    _, coordinator = coordinated(2)
    for call in (coordinator.add_worker, lambda: coordinator.remove_worker("worker:1")):
        coordinator.schedule(call)
        with pytest.raises(FailedPreconditionError, match="was called in closure"):
            coordinator.join()


@pytest.mark.parametrize("numerics", ["deferred", "off"])
def test_workers_come_and_go_in_the_same_way_each_time(numerics: str) -> None:
    def digest() -> Any:
        cluster = sd.Cluster(
            {"worker": 2, "ps": 1}, seed=3, numerics=numerics, hardware=sd.hardware.Device(jitter=sd.hardware.Exponential())
        )
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        _, step = counting(coordinator)
        for _ in range(12):
            coordinator.schedule(step)
        sd.sleep(0.7, cluster)
        coordinator.add_worker()
        sd.sleep(1.1, cluster)
        coordinator.remove_worker("worker:0")
        coordinator.join()
        return cluster.trace.digest()

    assert digest() == digest()


def test_a_fault_of_a_worker_that_was_removed_is_refused() -> None:
    cluster, coordinator = coordinated(2)
    coordinator.remove_worker("worker:1")
    for plan in (cluster.faults.crash, cluster.faults.pause, cluster.faults.lose_host):
        with pytest.raises(InvalidArgumentError, match="worker:1 was removed"):
            plan("worker:1", at=cluster.now + 1.0)
