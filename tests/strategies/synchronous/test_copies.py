"""Copies of a variable: one cell where they cannot differ, one for each replica where they can."""

from __future__ import annotations

from pathlib import Path
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


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("first", [10.0, 7, -float("inf")])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_sum_of_replicas_begins_with_its_initial_value_in_mains_as_in_a_notebook(devices: int, first: float, tmp_path: Path) -> None:
    def summed(strategy: Any) -> list[float]:
        with strategy.scope():
            total = sd.Variable(first, trainable=False, synchronization="on_read", aggregation="sum")
        seen = [float(total.numpy())]
        strategy.run(lambda: total.assign_add(1))
        seen.append(float(total.numpy()))
        checkpoint = sd.Checkpoint(total=total)
        path = checkpoint.save(str(tmp_path / "ckpt"))
        strategy.run(lambda: total.assign_add(1))
        checkpoint.restore(path)
        return [*seen, float(total.numpy())]

    def main() -> list[float]:
        return summed(sd.MultiWorkerMirroredStrategy(devices_per_worker=devices))

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    after_a_step = first + 2 * devices
    assert list(run.results.values()) == [[first, after_a_step, after_a_step]] * 2
    assert summed(sd.MirroredStrategy(2 * devices)) == [first, after_a_step, after_a_step]
