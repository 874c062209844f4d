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


def rank() -> int:
    context = sd.get_replica_context()
    assert context is not None
    return context.replica_id_in_sync_group


def numbers(values: Any) -> list[float]:
    return [float(value) for value in values]


def test_code_across_the_replicas_reads_the_copy_of_the_first_also_in_a_step_that_was_traced_when_all_were_equal() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        v = sd.Variable(1.0)

    def assign_differently() -> None:
        strategy.run(lambda: v.assign(1.0 + 10 * rank()))

    double = sd.function(lambda: v.assign(v.value * 2))
    with_rank = sd.function(lambda: strategy.run(lambda x: x + rank(), args=(v.value,)))
    double()
    assert numbers(strategy.local_results(with_rank())) == [2.0, 3.0]
    assign_differently()
    assert numbers(strategy.local_results(with_rank())) == [1.0, 2.0]
    double()
    assert numbers(strategy.local_results(v)) == [2.0, 2.0]


def test_a_step_may_read_as_one_what_its_replicas_then_assign_differently() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        v = sd.Variable(0.0)

    @sd.function
    def step() -> Any:
        v.assign(v.value + 1)
        strategy.run(lambda: v.assign(v.value + 10 * rank()))
        return v.value

    assert [float(step()) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert numbers(strategy.local_results(v)) == [3.0, 13.0]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_main_reads_its_own_copy_across_the_replicas_where_it_has_one_alone(devices: int) -> None:
    def main() -> list[float]:
        strategy = sd.MultiWorkerMirroredStrategy(devices_per_worker=devices)
        with strategy.scope():
            v = sd.Variable(1.0)
        strategy.run(lambda: v.assign(1.0 + 10 * rank()))
        double = sd.function(lambda: v.assign(v.value * 2))
        if devices > 1:
            with pytest.raises(sd.errors.InvalidArgumentError, match="agree on one of the copies"):
                double()
        else:
            double()
        return numbers(strategy.local_results(v))

    with sd.Cluster({"worker": 2}) as cluster:
        run = cluster.launch(main)
        run.join()
    assert [*run.results.values()] == ([[2.0], [22.0]] if devices == 1 else [[1.0, 11.0], [21.0, 31.0]])
