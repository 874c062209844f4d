"""Datasets that are resumed: a worker that comes back goes on after the last batch of a closure that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist.coordinator.remote_value import RemoteValue

ROWS = 36


def taken_with(
    resume: bool, faults: Any, workers: int = 2, steps: int = 12, repeat: int = 1, step: Any = None, source: Any = None, **options: Any
) -> list[int]:
    """The rows that closures which count have taken, in the order of the closures."""
    cluster = sd.Cluster({"worker": workers, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, **options))
    faults(cluster.faults)
    dataset = coordinator.create_per_worker_dataset(source or coordinator.strategy.distribute_datasets_from_function(part), resume=resume)
    iterator = iter(dataset)
    step = step or sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
    values = [RemoteValue(coordinator.schedule_steps(step, (iterator,), {}, repeat)) for _ in range(steps)]
    return [int(value) for value in coordinator.fetch(values)]


def part(context: sd.InputContext) -> sd.Dataset:
    dataset = sd.Dataset.range(ROWS).shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.shuffle(ROWS, seed=5).map(lambda x: x).batch(1)


def plain(iterator: Any) -> int:
    sd.sleep(1.0)
    return int(next(iterator).sum())


@pytest.mark.parametrize("step", [None, plain], ids=["traced", "plain"])
@pytest.mark.parametrize("crash_s", np.linspace(0.3, 11.3, 12).tolist())
@pytest.mark.sample
def test_a_crash_repeats_no_row_and_leaves_none_out(crash_s: float, step: Any) -> None:
    taken = taken_with(True, lambda faults: faults.crash("worker:1", at=crash_s, restart_after=0.4), steps=ROWS - 2, step=step)
    assert len(set(taken)) == ROWS - 2


def test_a_crash_repeats_no_row_of_a_cache_whose_order_was_drawn() -> None:
    def drawn() -> sd.Dataset:
        return sd.Dataset.range(12).shuffle(12).cache().batch(1)

    taken = taken_with(True, lambda faults: faults.crash("worker:0", at=5.5, restart_after=0.5), workers=1, source=drawn)
    assert sorted(taken) == list(range(12))


def test_without_it_a_worker_begins_anew() -> None:
    taken = taken_with(False, lambda faults: faults.crash("worker:1", at=3.5, restart_after=0.4))
    assert len(set(taken)) < len(taken)


def test_rows_come_in_the_order_in_which_they_would_have_come() -> None:
    undisturbed = taken_with(True, lambda faults: None, workers=1, steps=ROWS)
    assert sorted(undisturbed) == list(range(ROWS)) and undisturbed != sorted(undisturbed)
    assert taken_with(False, lambda faults: None, workers=1, steps=ROWS) == undisturbed
    for crash_s in (0.5, 5.5, 5.0001, 20.5):
        assert taken_with(True, lambda faults, at=crash_s: faults.crash("worker:0", at=at, restart_after=1.0), 1, ROWS) == undisturbed


def test_a_closure_of_several_steps_that_is_lost_takes_all_its_batches_again() -> None:
    sums = taken_with(True, lambda faults: faults.crash("worker:0", at=4.5, restart_after=1.0), workers=1, steps=8, repeat=3)
    assert sums == taken_with(True, lambda faults: None, workers=1, steps=8, repeat=3)


def test_a_worker_that_was_only_silent_takes_again_what_did_not_count() -> None:
    def cut(faults: Any) -> None:
        faults.partition("chief:0", "worker:1", at=2.5, until=20.0)

    taken = taken_with(True, cut, steps=18)
    assert len(set(taken)) == 18


def test_a_reply_that_is_lost_takes_no_batch() -> None:
    def lose(faults: Any) -> None:
        faults.drop("worker:0", "chief:0", kind="closure_reply", at=2.5, until=3.5)

    assert taken_with(True, lose, workers=1, steps=ROWS) == taken_with(True, lambda faults: None, workers=1, steps=ROWS)


def test_closures_that_a_round_drops_take_no_batch() -> None:
    taken = taken_with(True, lambda faults: faults.slow("worker:2", factor=4.0, at=0.0), workers=3, steps=18, mode="sync", backup_workers=1)
    assert len(set(taken)) == 18


def test_an_error_takes_no_batch() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(4).batch(1), resume=True))
    assert coordinator.schedule(lambda iterator: int(next(iterator)[0]), (iterator,)).fetch() == 0
    coordinator.schedule(lambda iterator: next(iterator) / {}, (iterator,))
    with pytest.raises(TypeError):
        coordinator.join()
    assert coordinator.schedule(lambda iterator: int(next(iterator)[0]), (iterator,)).fetch() == 1


def test_a_dataset_that_all_workers_share_is_put_back_for_one_alone() -> None:
    shared = sd.Dataset.range(ROWS).shuffle(ROWS, seed=1).batch(1)
    found = taken_with(True, lambda faults: faults.crash("worker:1", at=5.5, restart_after=1.0), steps=20, source=shared)
    assert sorted(np.unique(found, return_counts=True)[1])[-1] <= 2  # each worker gives each row once
    first, second = iter(shared), iter(shared)
    assert first.state_dict()["shuffles"] != second.state_dict()["shuffles"] != [0]


def test_a_new_iterator_begins_anew_although_the_dataset_is_resumed() -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(4).batch(1), resume=True)
    for _ in range(2):
        iterator = iter(dataset)
        rows = [coordinator.schedule(lambda iterator: int(next(iterator)[0]), (iterator,)).fetch() for _ in range(3)]
        assert rows == [0, 1, 2]


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_each_iterator_goes_on_where_it_stood_however_often_its_pipeline_is_handed_on(hops: int, devices: int) -> None:
    """Also one that the workers in between have never used."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=devices)
    coordinator = sd.ClusterCoordinator(strategy)
    distributed = strategy.distribute_datasets_from_function(lambda _: sd.Dataset.range(ROWS).batch(1))
    dataset = coordinator.create_per_worker_dataset(distributed, resume=True)
    used, rested = iter(dataset), iter(dataset)
    step = sd.function(lambda iterator: strategy.run(lambda row: sd.get_replica_context().all_gather(row * 1, axis=0), (next(iterator),)))

    def take(iterator: Any, count: int) -> list[int]:
        values = coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(count)])
        return [int(row) for value in values for row in strategy.local_results(value)[0]]

    found = {id(used): take(used, 2), id(rested): take(rested, 2)}
    for hop in range(hops):
        coordinator.add_worker()
        coordinator.remove_worker(f"worker:{hop}")
        found[id(used)] += take(used, 1)
    found[id(rested)] += take(rested, 2)
    assert found == {id(used): list(range((2 + hops) * devices)), id(rested): list(range(4 * devices))}


@pytest.mark.parametrize("engine", [{}, {"isolated": True}], ids=["shared", "isolated"])
def test_it_changes_nothing_where_nothing_fails(engine: dict[str, Any]) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, engine="in_process", **engine)))
    iterator = iter(coordinator.create_per_worker_dataset(part_of_one, resume=True))
    values = [coordinator.schedule(sd.function(lambda iterator: next(iterator).sum()), (iterator,)) for _ in range(6)]
    assert sorted(int(value) for value in coordinator.fetch(values)) == [0, 0, 1, 1, 2, 2]


def part_of_one() -> sd.Dataset:
    return sd.Dataset.range(ROWS).batch(1)


# -- workers with several devices ---------------------------------------------------------------------------------------


def shuffled(rows: int = ROWS) -> sd.Dataset:
    return sd.Dataset.range(rows).shuffle(rows, seed=5)


SOURCES: dict[str, Callable[[sd.ParameterServerStrategy], Any]] = {
    "split": lambda strategy: strategy.distribute_dataset(shuffled().batch(3)),
    "in turn": lambda strategy: strategy.distribute_datasets_from_function(lambda _: shuffled().batch(1)),
    "common": lambda _: lambda: shuffled().batch(2),
}


def taken_by_replicas(kind: str, resume: bool, faults: Callable[[Any], None], steps: int = 9, **options: Any) -> list[list[int]]:
    """What the two devices of a worker have got in each closure that counts."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=2, **options)
    coordinator = sd.ClusterCoordinator(strategy)
    faults(strategy.cluster.faults)
    iterator = iter(coordinator.create_per_worker_dataset(SOURCES[kind](strategy), resume=resume))

    def replica(batch: Any) -> Any:
        return sd.get_replica_context().all_gather(batch * 1, axis=0)

    step = sd.function(lambda iterator: strategy.run(replica, args=(next(iterator),)), seconds=1.0)
    values = coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(steps)])
    return [np.asarray(strategy.local_results(value)[0]).tolist() for value in values]


def calmly(_: Any) -> None:
    """No fault."""


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("crash_s", sampled(np.linspace(0.2, 9.0, 12).round(1).tolist(), [0.2, 3.4, 5.8]))
def test_the_devices_of_a_worker_go_on_together(kind: str, crash_s: float) -> None:
    expected = taken_by_replicas(kind, True, calmly)
    assert taken_by_replicas(kind, True, lambda faults: faults.crash("worker:0", at=crash_s, restart_after=0.4)) == expected
    if crash_s > 2.0:
        assert taken_by_replicas(kind, False, lambda faults: faults.crash("worker:0", at=crash_s, restart_after=0.4)) != expected


@pytest.mark.parametrize("kind", SOURCES)
def test_the_devices_of_a_worker_take_again_what_did_not_count(kind: str) -> None:
    def silent(faults: Any) -> None:
        faults.partition("worker:0", "chief:0", at=2.5, until=20.0)
        faults.pause("worker:0", at=24.3, until=40.0)

    assert taken_by_replicas(kind, True, silent) == taken_by_replicas(kind, True, calmly)


@pytest.mark.parametrize("kind", ["split", "common"])
def test_a_batch_that_one_device_has_taken_alone_is_taken_again(kind: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=2)
    coordinator = sd.ClusterCoordinator(strategy)
    numbers = sd.Dataset.from_tensor_slices(np.array([0, 1, np.inf, 3, 4, 5], np.float32)).batch(2)
    source = strategy.distribute_dataset(numbers) if kind == "split" else lambda: numbers
    iterator = iter(coordinator.create_per_worker_dataset(source, resume=True))
    step = sd.function(lambda iterator: strategy.run(lambda x: sd.check_numerics(x, "x").sum(), args=(next(iterator),)))
    coordinator.schedule(step, args=(iterator,)).fetch()
    for _ in range(3):  # the first device finds the number that is none before the other one has begun
        coordinator.schedule(step, args=(iterator,))
        with pytest.raises(sd.errors.InvalidArgumentError, match="a value is NaN or Inf"):
            coordinator.join()


FAULTS: dict[str, Callable[[sd.Cluster, float], object]] = {
    "restarted": lambda cluster, at: cluster.faults.crash("worker:1", at=at, restart_after=1e-4),
    "gone": lambda cluster, at: cluster.faults.crash("worker:1", at=at),
    "silent": lambda cluster, at: cluster.faults.pause("worker:1", at=at, until=at + 20.0),
    "both": lambda cluster, at: [
        cluster.faults.crash(worker, at=at + later_s, restart_after=1e-4) for worker, later_s in (("worker:1", 0.0), ("worker:0", 2e-4))
    ],
}


def rows_of_results_and_of_servers(fault: Callable[[sd.Cluster], object]) -> tuple[sd.Cluster, list[list[int]]]:
    """The rows that closures returned, and those that each of two servers has added."""
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, exactly_once=True)
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        seen = [sd.Variable(np.zeros(40, np.float32)) for _ in range(2)]
    source = strategy.distribute_datasets_from_function(
        lambda context: sd.Dataset.range(40).shard(context.num_input_pipelines, context.input_pipeline_id).batch(2)
    )
    iterator = iter(coordinator.create_per_worker_dataset(source, resume=True))

    @sd.function
    def add(iterator: Any) -> Any:
        rows = next(iterator)
        for variable in seen:
            variable.assign_add(jnp.zeros(40).at[rows].add(1.0))
        return rows

    fault(cluster)
    values = [coordinator.schedule(add, args=(iterator,)) for _ in range(8)]
    coordinator.join()
    returned = sorted(np.concatenate(coordinator.fetch(values)).tolist())
    return cluster, [returned, *(np.repeat(np.arange(40), variable.numpy().astype(int)).tolist() for variable in seen)]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.sample(2)
def test_a_closure_that_counts_exactly_once_has_the_rows_that_servers_have_added(fault: str) -> None:
    cluster, undisturbed = rows_of_results_and_of_servers(lambda _: None)
    moments_s = sorted({second for span in cluster.trace.spans for second in (span.start_s, span.end_s)})
    for at_s in moments_s[:: len(moments_s) // 16]:
        for offset_s in (0.0, 1e-9):
            _, (returned, *added) = rows_of_results_and_of_servers(lambda cluster, at=at_s + offset_s: FAULTS[fault](cluster, at))
            assert added == [returned, returned] and len(set(returned)) == len(undisturbed[0]), (fault, at_s + offset_s)


def test_rows_of_a_closure_that_is_still_to_be_run_again_are_in_no_other_one() -> None:
    """A worker that was only silent gets another closure before the one that it had begun."""

    def fault(cluster: sd.Cluster) -> None:
        cluster.faults.lose_host("worker:1", at=0.0, restart_after=30.0)
        cluster.faults.partition("worker:0", "chief:0", at=2e-4, until=8.0)

    _, (returned, *added) = rows_of_results_and_of_servers(fault)
    assert added == [returned, returned] and len(set(returned)) == 16


def test_resume_is_true_or_false() -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    with pytest.raises(TypeError, match="resume"):
        coordinator.create_per_worker_dataset(sd.Dataset.range(4).batch(2), resume="yes")  # pyright: ignore[reportArgumentType]
