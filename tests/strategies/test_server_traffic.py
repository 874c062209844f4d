"""The traffic of shards: calls and bytes are those of the steps, and all bytes that servers sent and received belong to a shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError
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


def test_an_assignment_from_outside_is_a_version_and_no_traffic() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        v = sd.Variable(0.0)
    v.assign(1.0)
    (record,) = strategy.traffic()
    assert (record.updates, record.bytes_travelled, record.version, record.staleness) == (0, 0, 1, None)


def trained(optimizer: str = "SGD", shards: int = 2, rows: bool = True, ids: Any = None, steps: int = 6) -> sd.ParameterServerStrategy:
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
    return strategy


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad"])
@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("rows", [True, False])
def test_all_bytes_of_a_training_belong_to_shards(optimizer: str, shards: int, rows: bool) -> None:
    strategy = trained(optimizer, shards, rows)
    records = strategy.traffic()
    for task, server in strategy.engine.trace.summary()["servers"].items():
        own = [record for record in records if record.task == task]
        sums = sum(record.bytes_updated for record in own), sum(record.bytes_read for record in own)
        assert sums == (server["bytes_received"], server["bytes_sent"])


def test_rows_are_counted_at_the_shard_that_has_them() -> None:
    ids = np.full((64, 3), 35)  # of 40 rows, in the second of two shards
    first, second = [record for record in trained(ids=ids).traffic() if record.variable == "table"]
    assert (first.reads, first.updates, first.bytes_travelled) == (0, 0, 0)
    row_bytes = WIDTH * FLOAT + ID_BYTES
    assert (second.reads, second.bytes_read, second.updates, second.bytes_updated) == (6, 6 * row_bytes, 6, 6 * row_bytes)


def test_records_are_those_of_the_shard_map() -> None:
    strategy = trained("Adam")
    keys = ("variable", "shard", "task", "kind", "size_bytes", "slot_of")
    traffic, placements = (
        [tuple(getattr(record, key) for key in keys) for record in found] for found in (strategy.traffic(), strategy.placements())
    )
    assert traffic == placements
    assert any(record.kind == "slot" and record.version > 0 and not record.bytes_travelled for record in strategy.traffic())


def test_an_engine_without_a_network_refuses() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, engine="in_process"))
    with pytest.raises(FailedPreconditionError, match=r"nothing travels .* engine='simulated'"):
        strategy.traffic()
