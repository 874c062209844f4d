"""Steps whose Python runs each time, with values."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError
from simdist.program.function import StepFunction


@pytest.mark.parametrize("strategy", [sd.OneDeviceStrategy(), sd.MirroredStrategy(2)])
def test_a_step_that_computes_in_python_alone_does_so_each_time(strategy: sd.Strategy) -> None:
    with strategy.scope():
        largest = sd.Variable(0.0, trainable=False, aggregation="only_first_replica")
        step = StepFunction(lambda x: strategy.run(lambda x: largest.assign(float(np.max(np.asarray(x)))), args=(x,)))
        step.run_eagerly = True
        found: list[float] = []
        for number in range(3):
            step(np.float32([number, 0.0]))
            found.append(float(largest.numpy()))
    assert found == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("strategy", [sd.OneDeviceStrategy(), sd.MirroredStrategy(2)])
def test_python_of_a_step_without_arrays_runs_each_time(strategy: sd.Strategy) -> None:
    run: list[int] = []
    step = StepFunction(lambda: strategy.run(lambda: run.append(0)))
    step.run_eagerly = True
    with strategy.scope():
        step()
        first = len(run)
        step()
    assert len(run) > first


@pytest.mark.parametrize("strategy", [sd.OneDeviceStrategy(), sd.MirroredStrategy(2)])
def test_a_number_that_follows_from_no_value_of_the_step_is_refused_where_it_changes(strategy: sd.Strategy) -> None:
    run: list[int] = []

    def replica() -> np.float32:
        run.append(0)
        return np.float32(len(run))

    step = StepFunction(lambda: strategy.run(replica))
    step.run_eagerly = True
    with strategy.scope(), pytest.raises(FailedPreconditionError, match="from something else than values of the step"):
        [step() for _ in range(2)]
