"""New variables and lookup tables: where they lie is in the trace, and what cannot be placed leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.lookup.worker_copies import TableCopies, holding_tables


def test_the_trace_says_where_each_shard_of_a_new_variable_lies() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2))
    with strategy.scope():
        sd.Variable(np.zeros((5, 2), np.float32), name="table")
    placed = cluster.trace.instants.where(category="place")
    assert [(mark.lane, mark.name, mark.facts["shard"], mark.facts["rows"]) for mark in placed] == [
        ("ps:0", "table", 0, [0, 3]),
        ("ps:1", "table", 1, [3, 5]),
    ]


def test_a_server_that_is_down_holds_no_new_variable() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
    cluster.faults.crash("ps:1", at=0.1, restart_after=1.0)
    sd.sleep(0.5, cluster)
    with strategy.scope(), pytest.raises(sd.errors.UnavailableError, match="ps:1 is down, and cannot hold table"):
        sd.Variable(np.ones((4, 2), np.float32), name="table")
    assert (strategy.variables, cluster.world.tasks["ps:0"].memory.in_use_bytes) == ([], 0)
    sd.sleep(1.0, cluster)
    with strategy.scope():
        sd.Variable(np.ones((4, 2), np.float32), name="table")
    assert [cluster.world.tasks[f"ps:{index}"].memory.in_use_bytes for index in range(2)] == [16, 16]


def test_a_copy_on_each_worker_is_refused_where_a_strategy_has_none() -> None:
    with sd.MirroredStrategy(2).scope(), pytest.raises(InvalidArgumentError, match="per_worker_variable=True, which MirroredStrategy does"):
        sd.Variable(0.0, per_worker_variable=True, name="own")


def test_tables_of_one_name_are_numbered_and_a_known_one_keeps_its_name() -> None:
    strategy = sd.OneDeviceStrategy()
    with holding_tables(strategy):
        tables = [TableCopies("words", lambda: (3, 24)) for _ in range(2)]
    for table in (*tables, tables[0]):
        table.filled()
    assert [table.name for table in tables] == ["words", "words_1"] and strategy.tables == tables
