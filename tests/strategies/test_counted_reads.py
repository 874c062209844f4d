"""Sums over the replicas of a worker that are read in the step which has added to them: the value is that of one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras

EACH = pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])


def sum_of(synchronization: str) -> Any:
    return {"synchronization": synchronization, "aggregation": "sum"}


def servers(engine: str = "simulated", devices: int = 2) -> Any:
    isolated = {"engine": "in_process", "isolated": True}
    cluster = sd.Cluster({"worker": 1, "ps": 1}, **(isolated if engine == "isolated" else {"engine": engine}))
    return sd.ParameterServerStrategy(cluster, devices_per_worker=devices)


def scheduled(strategy: Any, step: Callable[..., Any], times: int = 1, args: Any = ()) -> list[Any]:
    coordinator, function = sd.ClusterCoordinator(strategy), sd.function(step)
    return [coordinator.schedule(function, args=args).fetch() for _ in range(times)]


def rank() -> int:
    context = sd.get_replica_context()
    assert context is not None
    return context.replica_id_in_sync_group


@EACH
def test_a_metric_is_read_across_the_replicas_after_each_of_its_changes(engine: str) -> None:
    strategy = servers(engine)
    with strategy.scope():
        mean = keras.metrics.Mean()

    def step() -> Any:
        results = []
        for value in (4.0, 8.0, 12.0):
            strategy.run(lambda value=value: mean.update_state(jnp.full(2, value)))
            results.append(mean.result())
        return results

    assert scheduled(strategy, step) == [[4.0, 6.0, 8.0]]
    assert float(mean.result()) == 8.0


@EACH
def test_a_metric_that_begins_anew_in_each_step_is_that_of_the_step(engine: str) -> None:
    strategy = servers(engine)
    with strategy.scope():
        mean = keras.metrics.Mean()

    def replica(value: Any) -> Any:
        mean.update_state(value + rank())
        return mean.result()

    def step(value: Any) -> Any:
        mean.reset_state()
        return strategy.run(replica, args=(value,)), mean.result()

    for value in (1.0, 5.0):
        ((in_replicas, across),) = scheduled(strategy, step, args=(jnp.float32(value),))
        assert [*map(float, in_replicas.values), float(across)] == [value + 0.5] * 3


@EACH
@pytest.mark.parametrize("synchronization", ["on_read", "on_write"])
def test_a_replica_reads_what_all_of_its_worker_have_added(engine: str, synchronization: str) -> None:
    strategy = servers(engine)
    with strategy.scope():
        x = sd.Variable(1.0, **sum_of(synchronization))

    def replica() -> Any:
        x.assign_add(jnp.float32(1.0))
        return x.value

    found = scheduled(strategy, lambda: strategy.run(replica), times=3)
    assert [list(map(float, value.values)) for value in found] == [[3.0] * 2, [5.0] * 2, [7.0] * 2]


@EACH
def test_a_replica_without_rows_reads_what_the_other_has_counted(engine: str) -> None:
    strategy = servers(engine)
    with strategy.scope():
        mean = keras.metrics.Mean()

    def replica(x: Any) -> Any:
        if x.shape[0]:
            mean.update_state(x)

    def step(iterator: Any) -> Any:
        strategy.run(replica, args=(next(iterator),))
        return mean.result()

    values = np.array([1.0, 2.0, 3.0, 4.0, 15.0], np.float32)
    data = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(values).batch(4))
    iterator = iter(sd.ClusterCoordinator(strategy).create_per_worker_dataset(data))
    assert scheduled(strategy, step, 2, (iterator,)) == [2.5, 5.0]  # the last batch has one row


@EACH
def test_what_is_counted_is_read_beside_rows_of_a_table(engine: str) -> None:
    strategy = servers(engine)
    with strategy.scope():
        table = sd.Variable(np.arange(2000.0, dtype=np.float32).reshape(1000, 2))
        count = sd.Variable(0.0, **sum_of("on_read"))

    def replica(ids: Any) -> Any:
        count.assign_add(jnp.float32(1.0) + rank())
        return count.value + 0.0 * sd.embedding_lookup(table, ids).sum()

    def step(iterator: Any) -> Any:
        return strategy.run(replica, args=(next(iterator),))

    data = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(np.arange(8, dtype=np.int32)).batch(4))
    iterator = iter(sd.ClusterCoordinator(strategy).create_per_worker_dataset(data))
    found = scheduled(strategy, step, 2, (iterator,))
    assert [list(map(float, value.values)) for value in found] == [[3.0] * 2, [6.0] * 2]


@EACH
def test_replicas_that_read_what_they_have_counted_in_different_places_are_refused(engine: str) -> None:
    strategy = servers(engine)
    with strategy.scope():
        count = sd.Variable(0.0, **sum_of("on_read"))

    def replica() -> Any:
        count.assign_add(jnp.float32(1.0))
        return count.value if rank() else jnp.float32(0.0)

    with pytest.raises(sd.errors.InvalidArgumentError, match=r"read what they have counted .*devices_per_worker=2"):
        scheduled(strategy, lambda: strategy.run(replica))
    assert count.numpy() == 0.0


def test_a_step_that_only_counts_waits_for_no_other_replica() -> None:
    strategy = servers()
    with strategy.scope():
        mean = keras.metrics.Mean()

    def step() -> None:
        for value in (4.0, 8.0):  # Keras reads the total each time, and uses only what is added
            strategy.run(lambda value=value: mean.update_state(jnp.full(2, value)))

    fn = sd.function(step)
    call = strategy.replicas.bind(fn, (), {})
    assert not strategy.replicas.linked(fn, call, "worker:0").counted_reads


@EACH
def test_a_step_on_the_chief_reads_what_its_replicas_have_counted_and_changes_it_in_order(engine: str) -> None:
    strategy = servers(engine)
    with strategy.scope():
        count = sd.Variable(0.0, synchronization="on_read", aggregation="sum")
        table = sd.Variable(np.ones((4, 2), np.float32))

    def replica(ids: Any) -> Any:
        count.assign_add(jnp.float32(1.0))
        before = count.value
        count.assign_add(jnp.float32(1.0))
        return before, sd.embedding_lookup(table, ids).sum(), count.value

    @sd.function
    def step(ids: Any) -> Any:
        read = strategy.run(replica, args=(ids,))
        count.assign(count.value * 10.0)
        strategy.run(lambda: count.assign_add(jnp.float32(1.0)))
        return read, count.value

    ids = np.array([1], np.int32)
    for expected in ((2.0, 4.0, 42.0), (44.0, 46.0, 462.0)):
        with strategy.scope():
            (before, rows, after), last = step(ids)
        found = [strategy.local_results(value) for value in (before, rows, after)]
        assert found == [(expected[0],) * 2, (2.0, 2.0), (expected[1],) * 2]
        assert float(last) == float(count) == expected[2]
