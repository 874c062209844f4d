"""Which tasks have a copy of a table."""

from __future__ import annotations

import numpy as np

import simdist as sd


def servers() -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, seed=0))


def test_a_table_outside_of_a_scope_has_no_copies() -> None:
    assert sd.StaticHashTable({"a": 1}, -1).placements() == []


def test_a_table_of_a_synchronous_strategy_lies_where_its_variables_do() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        table = sd.StaticHashTable({"a": 1}, -1)
    assert [record.task for record in table.placements()] == [strategy.default_device]


def test_a_layer_that_learns_is_placed_when_it_has_learnt() -> None:
    strategy = servers()
    with strategy.scope():
        lookup = sd.StringLookup(name="words")
    assert strategy.tables == [] and strategy.placements() == []
    lookup.adapt(["a", "bb"])
    assert [(r.task, r.shape, r.size_bytes, r.kind) for r in strategy.placements()] == [
        ("worker:0", (2,), 3 + 16, "table"),
        ("worker:1", (2,), 3 + 16, "table"),
    ]
    lookup.adapt(["c"])
    assert [r.shape for r in strategy.placements()] == [(1,), (1,)]
    places = strategy.cluster.trace.instants.where(category="place")
    assert [(i.lane, i.facts["bytes"]) for i in places] == [("worker:0", 19), ("worker:1", 19), ("worker:0", 9), ("worker:1", 9)]


def test_every_kind_of_table_is_held_and_has_a_name_of_its_own() -> None:
    strategy = servers()
    with strategy.scope():
        sd.StringLookup(vocabulary=["a"])
        sd.StringLookup(vocabulary=["b"])
        sd.IntegerLookup(vocabulary=[1])
        sd.TextVectorization(vocabulary=["a"])
        sd.StaticHashTable({1: 1.0}, 0.0)
    assert [table.name for table in strategy.tables] == [
        "StringLookup",
        "StringLookup_1",
        "IntegerLookup",
        "TextVectorization",
        "StaticHashTable",
    ]
    assert [table.size_bytes for table in strategy.tables] == [9, 9, 16, 9, 12]


def test_a_closure_and_a_dataset_of_every_worker_look_up_after_a_crash() -> None:
    strategy = servers()
    with strategy.scope():
        table = sd.StaticHashTable({"a": 1, "b": 2}, -1)
        total = sd.Variable(0)

    @sd.function(seconds=1.0)
    def step(iterator: sd.data.DatasetIterator) -> None:
        total.assign_add(np.int32(1) * next(iterator))

    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices(["b"]).map(table.lookup).repeat()))
    strategy.cluster.faults.crash("worker:1", at=2.5, restart_after=1.0)
    for _ in range(12):
        coordinator.schedule(step, (iterator,))
    coordinator.join()
    assert int(total.numpy()) == 24
    assert len(table.placements()) == 2
