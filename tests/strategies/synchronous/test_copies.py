"""Copies of a variable: one cell where they cannot differ, one for each replica where they can."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd

ON_READ = sd.VariableSynchronization.ON_READ


@pytest.mark.parametrize(
    ("options", "variable", "expected"),
    [
        ({}, {}, ("shards", "first", 1)),
        ({}, {"synchronization": ON_READ, "aggregation": sd.VariableAggregation.MEAN, "trainable": False}, ("replicas", "mean", 2)),
        ({"sync_every": 2}, {}, ("replicas", "mean", 2)),
        ({"sync_every": 2}, {"trainable": False}, ("shards", "first", 1)),
    ],
)
def test_variable_has_a_cell_for_each_replica_where_copies_may_differ(
    options: dict[str, Any], variable: dict[str, Any], expected: tuple[str, str, int]
) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), **options)
    with strategy.scope():
        placement = sd.Variable(1.0, **variable).placement
    assert (placement.spread, placement.combine, len(placement.cells)) == expected


def test_copies_that_are_separated_keep_their_value_until_a_replica_changes_its_own() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable(3.0)
    strategy.run(lambda: v.assign_add(1.0 * sd.get_replica_context().replica_id_in_sync_group))
    assert v.placement.spread == "replicas"
    assert [float(value) for value in strategy.local_results(v)] == [3.0, 4.0]
