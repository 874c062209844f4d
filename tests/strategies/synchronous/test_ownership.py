"""Whose variables a step may use."""

from __future__ import annotations

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
