"""What faults of one task, and faults that last, check and tell."""

from __future__ import annotations

from typing import Any

import pytest

from faults.fake_effects import FakeEffects
from simdist.errors import InvalidArgumentError
from simdist.faults.process import Crash, Pause, Slow
from simdist.faults.triggers import Trigger


@pytest.mark.parametrize(
    ("name", "message"),
    [("wroker:1", "no task wroker:1"), (5, "5 is no name of a task"), (None, "None is no name"), (["worker:0"], "is no name")],
)
def test_a_task_that_there_is_not_is_refused(name: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Pause(name, trigger=Trigger(at=1.0)).check(FakeEffects())


def test_a_crash_has_no_end_and_what_lasts_has_the_one_that_was_given() -> None:
    trigger = Trigger(at=1.0)
    assert Crash("worker:0", trigger=trigger).ends_s is None
    assert Pause("worker:0", trigger=trigger).ends_s is None
    assert Slow("worker:0", 2.0, until=3.0, trigger=trigger).ends_s == 3.0


def test_the_trace_tells_a_beginning_before_the_effect_and_a_heal_before_its_end() -> None:
    effects = FakeEffects()
    order: list[str] = []
    note = effects.note
    effects.note = lambda category, *rest, **facts: (order.append(category), note(category, *rest, **facts))[1]  # type: ignore[method-assign]
    effects.pause = lambda task: (order.append("laid"), lambda: order.append("gone"))[1]  # type: ignore[method-assign]
    Pause("worker:0", trigger=Trigger(at=1.0)).begin(effects)()
    assert order == ["pause", "laid", "heal", "gone"]
