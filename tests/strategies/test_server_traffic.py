"""The traffic of shards: calls and bytes are those of the steps, and all bytes that servers sent and received belong to a shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from sampling import covering, sampled
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.runtime.linked_rows import ID_BYTES
from simdist.variables.traffic import TrafficRecord

FLOAT, ROWS, WIDTH = 4, 40, 3


def steps_on(cluster: sd.Cluster, body: Callable[[list[sd.Variable]], object], steps: int = 5) -> dict[tuple[str, int], TrafficRecord]:
    """Run steps on a wide variable in two shards and a narrow one; the traffic by variable and shard."""
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2))
    with strategy.scope():
        variables = [sd.Variable(np.zeros((6, 4), np.float32), name="wide"), sd.Variable(np.float32(0), name="narrow")]
    coordinator = sd.ClusterCoordinator(strategy)
    function = sd.function(lambda: body(variables))
    for _ in range(steps):
        coordinator.schedule(function)
    coordinator.join()
    return {(record.variable, record.shard): record for record in strategy.traffic()}


def test_reads_and_updates_are_counted_with_their_bytes() -> None:
    def body(variables: list[sd.Variable]) -> None:
        wide, narrow = variables
        narrow.assign_add(wide.value.sum())

    found = steps_on(sd.Cluster({"worker": 2, "ps": 2}), body)
    shard = found["wide", 1]
    assert (shard.reads, shard.bytes_read, shard.updates, shard.bytes_updated, shard.version) == (5, 5 * 12 * FLOAT, 0, 0, 0)
    narrow = found["narrow", 0]
    assert (narrow.reads, narrow.updates, narrow.bytes_updated, narrow.version) == (0, 5, 5 * FLOAT, 5)
    assert narrow.bytes_travelled == 5 * FLOAT


def test_staleness_is_that_of_the_task() -> None:
    def body(variables: list[sd.Variable]) -> None:
        variables[1].assign_add(variables[1].value + 1.0)

    cluster = sd.Cluster({"worker": 3, "ps": 2})
    found = steps_on(cluster, body, steps=9)
    servers = cluster.trace.summary()["servers"]
    place = found["narrow", 0].task
    assert found["narrow", 0].staleness == servers[place]["mean_staleness"] == cluster.trace.summary()["staleness"]["mean"]
    assert {record.staleness for record in found.values() if record.task != place} <= {None}


def test_a_counter_that_a_step_does_not_read_says_nothing_of_staleness() -> None:
    def body(variables: list[sd.Variable]) -> None:
        wide, narrow = variables
        wide.assign_add(wide.value + 1.0)
        narrow.assign_add(1.0)

    cluster = sd.Cluster({"worker": 1, "ps": 1})
    found = steps_on(cluster, body, steps=6)
    # one worker misses no update; the server changes both shards at once
    assert cluster.trace.summary()["staleness"] == {"updates": 6, "mean": 0.0, "max": 0, "histogram": {0: 6}}
    assert {record.staleness for record in found.values()} == {0.0}


def test_an_assignment_from_outside_is_a_version_and_no_traffic() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        v = sd.Variable(0.0)
    v.assign(1.0)
    (record,) = strategy.traffic()
    assert (record.updates, record.bytes_travelled, record.version, record.staleness) == (0, 0, 1, None)


class Trained(NamedTuple):
    """A strategy, and the table that was trained."""

    strategy: sd.ParameterServerStrategy
    table: sd.Variable


def trained(optimizer: str = "SGD", shards: int = 2, rows: bool = True, ids: Any = None, steps: int = 6) -> Trained:
    """Train a table and weights beside it, by looking rows up or by reading all of the table."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), sd.FixedShardsPartitioner(shards))
    numbers = np.random.default_rng(0).integers(0, ROWS, (64, 3)) if ids is None else ids
    with strategy.scope():
        table, weights = sd.Variable(np.ones((ROWS, WIDTH), np.float32), name="table"), sd.Variable(np.ones(WIDTH, np.float32), name="w")
        rule = sd.Optimizer(getattr(keras.optimizers, optimizer)(0.1))

    @sd.function
    def step(iterator: Any) -> None:
        batch = next(iterator)

        def loss() -> Any:
            found = sd.embedding_lookup(table, batch) if rows else jnp.take(table.value, batch, axis=0)
            return (found.mean(1) @ weights.value).mean()

        _, gradients = sd.value_and_grad(loss, [table, weights])()
        rule.apply_gradients(zip(gradients, [table, weights], strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices(numbers).batch(4).repeat()))
    for _ in range(steps):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    return Trained(strategy, table)


CASES = [(optimizer, shards, rows) for optimizer in ("SGD", "Adagrad") for shards in (1, 2, 3) for rows in (True, False)]


@pytest.mark.parametrize(("optimizer", "shards", "rows"), sampled(CASES, [*covering(CASES), ("Adagrad", 2, True)]))
def test_all_bytes_of_a_training_belong_to_shards(optimizer: str, shards: int, rows: bool) -> None:
    strategy, _ = trained(optimizer, shards, rows)
    records = strategy.traffic()
    for task, server in strategy.engine.trace.summary()["servers"].items():
        own = [record for record in records if record.task == task]
        sums = sum(record.bytes_updated for record in own), sum(record.bytes_read for record in own)
        assert sums == (server["bytes_received"], server["bytes_sent"])


def test_rows_are_counted_at_the_shard_that_has_them() -> None:
    ids = np.full((64, 3), 35)  # of 40 rows, in the second of two shards
    first, second = [record for record in trained(ids=ids).strategy.traffic() if record.variable == "table"]
    assert (first.reads, first.updates, first.bytes_travelled) == (0, 0, 0)
    row_bytes = WIDTH * FLOAT + ID_BYTES
    assert (second.reads, second.bytes_read, second.updates, second.bytes_updated) == (6, 6 * row_bytes, 6, 6 * row_bytes)


def test_records_are_those_of_the_shard_map() -> None:
    strategy, _ = trained("Adam")
    keys = ("variable", "shard", "task", "kind", "size_bytes", "slot_of")
    traffic, placements = (
        [tuple(getattr(record, key) for key in keys) for record in found] for found in (strategy.traffic(), strategy.placements())
    )
    assert traffic == placements
    assert any(record.kind == "slot" and record.version > 0 and not record.bytes_travelled for record in strategy.traffic())


def test_an_engine_without_a_network_refuses() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, engine="in_process"))
    with strategy.scope():
        table = sd.Variable(np.zeros((4, 2)), name="table")
    with pytest.raises(FailedPreconditionError, match=r"nothing travels .* engine='simulated'"):
        strategy.traffic()
    with pytest.raises(FailedPreconditionError, match=r"nothing travels .* engine='simulated'"):
        strategy.hot_rows(table)


@pytest.mark.parametrize("shards", [1, 3])
def test_hot_rows_are_those_that_most_steps_asked_for(shards: int) -> None:
    ids = np.random.default_rng(3).zipf(1.3, (64, 3)) % ROWS
    strategy, table = trained(shards=shards, ids=ids, steps=12)
    batches = np.array_split(ids, 16)  # each of the two workers goes through them from the first on
    expected = np.zeros(ROWS, int)
    for step in range(6):
        expected[np.unique(batches[step])] += 2
    order = sorted(np.flatnonzero(expected).tolist(), key=lambda row: (-expected[row], row))
    found = strategy.hot_rows(table, count=7)
    assert [hot.row for hot in found] == order[:7]
    assert [(hot.reads, hot.updates) for hot in found] == [(expected[row],) * 2 for row in order[:7]]
    assert len(strategy.hot_rows(table, count=10 * ROWS)) == len(order)
    records = [record for record in strategy.traffic() if record.variable == "table"]
    for record in records:
        own = [row for row in order if record.row_start <= row < record.row_stop]
        assert [(hot.row, hot.task) for hot in record.hot_rows] == [(row, record.task) for row in own[:3]]
    assert {hot.row: hot.task for record in records for hot in record.hot_rows}[found[0].row] == found[0].task


def test_uses_of_rows_are_those_of_a_crashed_worker_too_and_change_no_digest() -> None:
    def run(asks: bool) -> tuple[str, list[tuple[int, ...]]]:
        cluster = sd.Cluster({"worker": 1, "ps": 2}, numerics="off")
        strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2))
        with strategy.scope():
            table = sd.Variable(np.zeros((ROWS, WIDTH), np.float32), name="table")
        cluster.faults.crash("worker:0", after_steps=2, restart_after=1.0)
        step = sd.function(lambda ids: sd.embedding_lookup(table, ids))
        coordinator = sd.ClusterCoordinator(strategy)
        for row in range(4):
            coordinator.schedule(step, args=(np.array([row, 39, 39], np.int32),))
            if asks:
                strategy.hot_rows(table)
        coordinator.join()
        found = [(hot.row, hot.reads, hot.updates) for hot in strategy.hot_rows(table, count=2)]
        assert found[0] == (39, strategy.traffic()[1].reads, 0)
        assert found[0][1] > 4  # the closure that was under way is done again
        return cluster.trace.digest(), found

    assert run(asks=False) == run(asks=True)


def test_a_step_that_reads_the_whole_table_has_no_hot_rows() -> None:
    strategy, table = trained(rows=False)
    assert strategy.hot_rows(table) == []
    assert {record.hot_rows for record in strategy.traffic()} == {()}


def test_hot_rows_refuse_variables_of_others_and_odd_counts() -> None:
    (strategy, table), other = trained(steps=1), trained(steps=1)
    with pytest.raises(InvalidArgumentError, match="'table' is no variable of this strategy"):
        strategy.hot_rows(other.table)
    with pytest.raises(InvalidArgumentError, match="count"):
        strategy.hot_rows(table, count=0)


def test_hot_rows_are_asked_for_by_name_also_where_nothing_refers_to_the_table_any_more() -> None:
    strategy, table = trained()
    expected = strategy.hot_rows(table)
    assert len(expected) == 10 and strategy.hot_rows("table") == expected
    del table
    assert strategy.variables == []
    assert strategy.hot_rows("table") == expected


def test_hot_rows_refuse_a_name_that_none_or_several_have() -> None:
    strategy, _ = trained(steps=1)
    with pytest.raises(InvalidArgumentError, match=r"no variable of this strategy has the name 'tables'; its variables are 'table', 'w'"):
        strategy.hot_rows("tables")
    with strategy.scope():
        another = sd.Variable(np.zeros((4, 2), np.float32), name="table")
    with pytest.raises(InvalidArgumentError, match="2 variables of this strategy have the name 'table'"):
        strategy.hot_rows("table")
    assert strategy.hot_rows(another) == []
