"""When something is due again, by steps or by virtual seconds."""

from __future__ import annotations

import math

from simdist.estimator.training_loop import StepTimer


def test_nothing_is_due_twice_for_one_step_and_the_first_time_always() -> None:
    timer = StepTimer(every_s=5.0)
    assert timer.is_due(0, 0.0)
    timer.happened(3, 10.0)
    assert not timer.is_due(3, 100.0)
    assert [timer.is_due(4, now_s) for now_s in (14.9, 15.0)] == [False, True]
    assert timer.steps_left(4) == math.inf


def test_steps_are_counted_from_the_last_time() -> None:
    timer = StepTimer(every_steps=10)
    timer.happened(7, 0.0)
    assert [timer.is_due(step, 1e9) for step in (16, 17, 30)] == [False, True, True]
    assert (timer.steps_left(7), timer.steps_left(12)) == (10, 5)


def test_without_a_frequency_it_is_never_due_again() -> None:
    for timer in (StepTimer(), StepTimer(every_steps=0)):
        timer.happened(0, 0.0)
        assert not timer.is_due(1000, 1e9) and timer.steps_left(1000) == math.inf
