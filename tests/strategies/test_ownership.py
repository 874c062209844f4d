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
