"""New variables and lookup tables: where they lie is in the trace, and what cannot be placed leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError, UnavailableError
from simdist.lookup.worker_copies import TableCopies, holding_tables


def served() -> tuple[sd.Cluster, sd.ParameterServerStrategy]:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    return cluster, sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2))


def test_the_trace_says_where_each_shard_of_a_new_variable_lies() -> None:
    cluster, strategy = served()
    with strategy.scope():
        sd.Variable(np.zeros((5, 2), np.float32), name="table")
    placed = cluster.trace.instants.where(category="place")
    assert [(mark.lane, mark.name, mark.facts["shard"], mark.facts["rows"]) for mark in placed] == [
        ("ps:0", "table", 0, [0, 3]),
        ("ps:1", "table", 1, [3, 5]),
    ]


def test_a_variable_of_which_a_shard_cannot_be_placed_leaves_no_cell() -> None:
    cluster, strategy = served()
    cluster.faults.crash("ps:1", at=1.0)
    sd.sleep(2.0, cluster)
    with strategy.scope(), pytest.raises(UnavailableError, match="ps:1"):
        sd.Variable(np.zeros((4, 2), np.float32))
    assert (strategy.variables, len(strategy.store.layout.groups), cluster.world.tasks["ps:0"].memory.in_use_bytes) == ([], 0, 0)


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
