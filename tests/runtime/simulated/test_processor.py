"""A processor: one thing after the other, each in a time that there is."""

from __future__ import annotations

import math

import pytest

from simdist.errors import InvalidArgumentError
from simdist.hardware import Device
from tests.runtime.simulated.machines import world


def test_what_a_processor_is_given_runs_one_after_the_other_and_slower_while_its_task_is_slow() -> None:
    task = world(Device()).tasks["worker:0"]
    assert task.processor.occupy_for(1.0, 2.0) == (1.0, 3.0)
    heal = task.slow_by(3.0)
    assert task.processor.occupy_for(1.0, 2.0) == (3.0, 9.0)
    heal()
    assert task.processor.occupy_for(10.0, 2.0) == (10.0, 12.0)


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_work_of_no_possible_duration_is_refused_and_takes_no_time(seconds: float) -> None:
    processor = world(Device()).tasks["worker:0"].processor
    with pytest.raises(InvalidArgumentError, match="worker:0 was to compute for"):
        processor.occupy_for(0.0, seconds)
    assert processor.free_s == 0.0
