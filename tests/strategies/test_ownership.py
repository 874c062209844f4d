"""Whose variables a step may use."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.program.function import StepFunction


def test_step_with_a_variable_of_another_strategy_is_refused() -> None:
    with sd.MirroredStrategy(2).scope():
        v = sd.Variable(0.0, name="theirs")
    with pytest.raises(sd.errors.FailedPreconditionError, match="theirs was made in the scope of MirroredStrategy"):
        sd.MirroredStrategy(3).step(StepFunction(lambda: v.value, name="read"), (), {})


def test_step_outside_of_every_scope_runs_under_the_strategy_of_its_variables() -> None:
    with sd.MirroredStrategy(2).scope():
        v = sd.Variable(0.0)
    step = sd.function(lambda: v.assign_add(1.0))
    step()
    assert float(v) == 1.0


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("elsewhere", ["another cluster", "replicas", "sharded"])
def test_closure_with_a_variable_of_another_strategy_is_refused(elsewhere: str, change: bool) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        own = sd.Variable(100.0, name="own")
    cut = sd.FixedShardsPartitioner(2) if elsewhere == "sharded" else None
    other = sd.MirroredStrategy(2) if elsewhere == "replicas" else sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), cut)
    with other.scope():
        theirs = sd.Variable([7.0, 8.0], name="theirs")
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: theirs.assign_add([1.0, 1.0]) if change else theirs.value + 0.0))
    with pytest.raises(sd.errors.FailedPreconditionError, match="Mixing different strategies: theirs was made"):
        coordinator.join()
    assert (float(own), np.asarray(theirs.numpy()).tolist()) == (100.0, [7.0, 8.0])
    coordinator.schedule(sd.function(lambda: own.assign_add(1.0)))
    coordinator.join()
    assert float(own) == 101.0


def test_a_variable_of_no_scope_moves_to_the_chief_of_the_closure_and_keeps_its_value() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        own = sd.Variable(100.0, name="own")
    theirs = sd.Variable([7.0, 8.0], name="theirs")
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: theirs.assign_add([1.0, 1.0])))
    coordinator.join()
    assert (float(own), theirs.numpy().tolist()) == (100.0, [8.0, 9.0])


@pytest.mark.parametrize("shards", [1, 2])
def test_a_table_of_which_rows_are_looked_up_belongs_to_its_strategy(shards: int) -> None:
    others = sd.Variable(np.full((4, 2), 100.0, np.float32), name="others")
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(shards))
    with strategy.scope():
        table = sd.Variable(np.arange(8, dtype=np.float32).reshape(4, 2), name="table")
    ids, rows = np.array([3, 1], np.int32), [[6.0, 7.0], [2.0, 3.0]]
    step = sd.function(lambda ids: sd.embedding_lookup(table, ids))
    assert step(ids).tolist() == rows  # outside of every scope its own strategy runs it
    mirrored, elsewhere = sd.MirroredStrategy(2), sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    for other in (mirrored, elsewhere):
        with other.scope():
            sd.Variable(np.full((4, 2), 50.0, np.float32), name="own")
    message = "Mixing different strategies: table was made"
    with pytest.raises(sd.errors.FailedPreconditionError, match=message):
        mirrored.run(step, args=(ids,))
    sd.ClusterCoordinator(elsewhere).schedule(step, args=(ids,))
    with pytest.raises(sd.errors.FailedPreconditionError, match=message):
        sd.ClusterCoordinator(elsewhere).join()
    with pytest.raises(sd.errors.FailedPreconditionError, match=message):
        sd.function(lambda ids: sd.embedding_lookup(table, ids) + others.value[0])(ids)


@pytest.mark.parametrize("devices", [1, 2])
def test_rows_of_a_table_of_which_each_worker_has_a_copy_are_those_of_its_worker(devices: int) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), devices_per_worker=devices)
    with strategy.scope():
        own = sd.Variable(np.zeros((4, 2), np.float32), name="own", per_worker_variable=True)
    coordinator = sd.ClusterCoordinator(strategy)
    values = np.ones((4, 2), np.float32)
    for _ in range(3):
        coordinator.schedule(sd.function(lambda: own.assign(values * sd.get_current_worker_index())))
    coordinator.join()
    step = sd.function(lambda ids: strategy.run(lambda: sd.embedding_lookup(own, ids).sum()))
    found = [coordinator.schedule(step, args=(np.array([3, 3, 1], np.int32),)) for _ in range(6)]
    coordinator.join()
    assert {tuple(map(float, strategy.local_results(value.fetch()))) for value in found} == {
        (total,) * devices for total in (0.0, 6.0, 12.0)
    }
