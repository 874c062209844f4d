"""What each fault of a process does to an engine, alone and over another one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from faults.fake_effects import FakeEffects
from simdist.errors import InvalidArgumentError
from simdist.faults.schedule import Faults


def test_a_crash_is_handed_to_the_engine_which_notes_it_itself() -> None:
    effects = FakeEffects()
    fault = Faults(effects).crash("worker:0", at=1.0, restart_after=0.5)
    effects.move_to(3.0)
    assert effects.crashes == [(1.0, "worker:0", 0.5, "crash('worker:0', at=1.0)")]
    assert effects.notes == []
    assert fault.fired and not fault.healed


def test_chief_is_short_for_its_first_task() -> None:
    effects = FakeEffects()
    assert Faults(effects).crash("chief", at=0.0).task == "chief:0"
    effects.move_to(0.0)
    assert effects.crashes == [(0.0, "chief:0", None, "crash('chief:0', at=0.0)")]


@pytest.mark.parametrize("restart_after", [-1.0, math.inf, math.nan, True, "1"])
def test_a_restart_at_no_moment_is_refused(restart_after: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="restart_after="):
        Faults(FakeEffects()).crash("worker:0", at=0.0, restart_after=restart_after)


def test_a_slow_task_is_noted_when_it_begins_and_when_it_heals() -> None:
    effects = FakeEffects()
    Faults(effects).slow("worker:0", 3, at=1.0, until=2.0)
    assert effects.move_to(1.5).laid == [("slow", "worker:0", 3.0)]
    assert effects.move_to(2.5).laid == []
    assert effects.notes == [
        (1.0, "slow", "worker:0", {"factor": 3.0, "until": 2.0}),
        (2.0, "heal", "worker:0", {"kind": "slow", "factor": 3.0}),
    ]


def test_of_two_slow_faults_the_end_of_one_leaves_the_other() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    first = faults.slow("worker:0", 2.0, at=1.0, until=3.0)
    second = faults.slow("worker:0", 5.0, at=2.0, until=4.0)
    effects.move_to(3.0)
    assert effects.laid == [("slow", "worker:0", 5.0)]
    assert first.healed and not second.healed
    assert effects.move_to(4.0).laid == []


def test_two_equal_pauses_are_two_and_the_task_goes_on_after_the_second() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    faults.pause("worker:0", at=1.0, until=2.0)
    faults.pause("worker:0", at=1.0, until=3.0)
    assert [len(effects.move_to(time_s).laid) for time_s in (0.5, 1.0, 2.0, 3.0)] == [0, 2, 1, 0]
    assert [(time_s, category) for time_s, category, _, _ in effects.notes] == [
        (1.0, "pause"),
        (1.0, "pause"),
        (2.0, "heal"),
        (3.0, "heal"),
    ]


def test_a_pause_without_an_end_never_heals() -> None:
    effects = FakeEffects()
    fault = Faults(effects).pause("worker:0", after_steps=2)
    effects.step("worker:0", 2).move_to(1e9)
    assert effects.laid == [("pause", "worker:0")]
    assert effects.notes == [(0.0, "pause", "worker:0", {})]
    assert not fault.healed


def test_a_crash_that_does_not_keep_the_disk_takes_it_away() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    faults.crash("worker:0", at=1.0, keep_disk=False)
    faults.crash("worker:1", at=1.0)
    effects.move_to(2.0)
    assert len(effects.crashes) == 2 and effects.lost_disks == [(1.0, "worker:0")]


@pytest.mark.parametrize("keep_disk", [None, 1, "no"])
def test_a_disk_is_kept_or_it_is_not(keep_disk: Any) -> None:
    with pytest.raises(TypeError, match="keep_disk"):
        Faults(FakeEffects()).crash("worker:0", at=0.0, keep_disk=keep_disk)


def test_a_preemption_is_handed_to_the_engine_which_notes_it_itself() -> None:
    effects = FakeEffects()
    fault = Faults(effects).preempt("chief", notice=30.0, at=1.0, restart_after=5.0)
    effects.move_to(3.0)
    assert effects.preemptions == [(1.0, "chief:0", 30.0, 5.0, "preempt('chief:0', at=1.0)")]
    assert effects.notes == [] and effects.crashes == []
    assert fault.fired and not fault.healed


@pytest.mark.parametrize("notice", [0.0, -1.0, math.inf, math.nan, True, None, "30"])
def test_a_notice_is_a_time_before_the_kill(notice: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"notice=.*more than 0"):
        Faults(FakeEffects()).preempt("worker:0", notice, at=0.0)
