"""Steps whose Python runs each time, with values."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
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
