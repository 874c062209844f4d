"""A processor: one thing after the other, each in a time that there is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from simdist.cost.flops import Cost
from simdist.errors import InvalidArgumentError
from simdist.hardware import Device
from simdist.runtime.simulated.processor import Processor
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


@dataclass(frozen=True, kw_only=True)
class Gives(Device):
    """A user's own device, whose model gives this."""

    given: Any = None

    def seconds(self, flops: float, bytes: float) -> float:
        return self.given


def test_what_a_users_device_gives_is_kept_as_a_float_or_refused() -> None:
    task, cost = world().tasks["worker:0"], Cost(1.0, 1.0)
    _, end = Processor("worker:0", Gives(given=np.float32(0.5)), task).occupy(0.0, cost)
    assert type(end) is float and end == 0.5
    with pytest.raises(TypeError, match=r"Gives\.seconds\(flops, bytes\) gave None; expected a number of seconds"):
        Processor("worker:0", Gives(), task).occupy(0.0, cost)
