"""Which directions a partition cuts, and when each is open again."""

from __future__ import annotations

from typing import Any

import pytest

from faults.fake_effects import FakeEffects
from simdist.errors import InvalidArgumentError
from simdist.faults.network import Partition
from simdist.faults.schedule import Faults
from simdist.faults.triggers import Trigger


def test_a_partition_cuts_every_pair_in_both_directions_and_nothing_else() -> None:
    effects = FakeEffects()
    Faults(effects).partition("worker:0", ["chief", "ps:0"], at=1.0, until=2.0)
    assert sorted(effects.move_to(1.0).laid) == [
        ("cut", "chief:0", "worker:0"),
        ("cut", "ps:0", "worker:0"),
        ("cut", "worker:0", "chief:0"),
        ("cut", "worker:0", "ps:0"),
    ]
    assert effects.move_to(2.0).laid == []


def test_one_way_loses_only_what_the_first_side_sends() -> None:
    effects = FakeEffects()
    Faults(effects).partition(["worker:0", "worker:1"], "ps:0", at=1.0, one_way=True)
    assert effects.move_to(1.0).laid == [("cut", "worker:0", "ps:0"), ("cut", "worker:1", "ps:0")]


def test_a_partition_is_noted_at_every_task_of_both_sides() -> None:
    effects = FakeEffects()
    Faults(effects).partition("worker:0", ["worker:1", "ps:0"], at=1.0, until=2.0, one_way=True)
    effects.move_to(2.0)
    sent = {"peer": "worker:1, ps:0", "lost": "sent"}
    received = {"peer": "worker:0", "lost": "received"}
    lanes = {"worker:0": sent, "worker:1": received, "ps:0": received}
    assert effects.notes == [
        *((1.0, "partition", task, {**facts, "until": 2.0}) for task, facts in lanes.items()),
        *((2.0, "heal", task, {**facts, "kind": "partition"}) for task, facts in lanes.items()),
    ]


def test_the_end_of_a_partition_leaves_the_one_that_it_lies_in() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    faults.partition("worker:0", ["chief", "ps:0"], at=1.0, until=5.0)
    outer = set(effects.move_to(1.0).laid)
    faults.partition("worker:0", "ps:0", at=2.0, until=3.0)
    assert len(effects.move_to(2.0).laid) == 6
    assert set(effects.move_to(3.0).laid) == outer
    assert len(effects.laid) == 4
    assert effects.move_to(5.0).laid == []


def test_the_end_of_the_outer_partition_leaves_the_inner_one() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    faults.partition("worker:0", ["chief", "ps:0"], at=1.0, until=3.0)
    faults.partition("worker:0", "ps:0", at=2.0, until=5.0, one_way=True)
    assert effects.move_to(3.0).laid == [("cut", "worker:0", "ps:0")]
    assert effects.move_to(5.0).laid == []


def test_steps_of_the_first_task_decide_when_a_partition_begins() -> None:
    effects = FakeEffects()
    fault = Faults(effects).partition(["worker:1", "worker:0"], "ps:0", after_steps=2)
    assert not effects.step("worker:0", 5).step("ps:0", 5).step("worker:1").laid
    assert effects.step("worker:1").laid
    assert fault.fired


def test_a_task_named_twice_on_one_side_is_cut_once() -> None:
    effects = FakeEffects()
    fault = Faults(effects).partition(["chief", "chief:0"], "ps:0", at=0.0, one_way=True)
    assert effects.move_to(0.0).laid == [("cut", "chief:0", "ps:0")]
    assert fault.describe() == "partition('chief:0', 'ps:0', at=0.0)"


def test_a_partition_is_told_as_a_user_writes_it() -> None:
    fault = Partition(["worker:0", "worker:1"], "ps:0", trigger=Trigger(after_steps=3))
    assert fault.describe() == "partition(['worker:0', 'worker:1'], 'ps:0', after_steps=3)"


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("worker:0", "worker:0", "worker:0 is on both sides"),
        ("chief", ["ps:0", "chief:0"], "chief:0 is on both sides"),
        ("worker:0", [], r"b=\[\] must be the name of a task, or a list"),
        ("", "ps:0", "a='' must be"),
        (5, "ps:0", "a=5 must be"),
        (["worker:0", 5], "ps:0", "5 is no name of a task"),
        ("worker:0", ["ps:7"], "no task ps:7"),
    ],
)
def test_sides_that_make_no_sense_are_refused_and_not_planned(a: Any, b: Any, message: str) -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    with pytest.raises(InvalidArgumentError, match=message):
        faults.partition(a, b, at=1.0)
    assert faults.planned == []
    assert effects.move_to(2.0).laid == []


def test_one_way_takes_true_or_false() -> None:
    with pytest.raises(TypeError, match="one_way is 'yes'; expected True or False"):
        Faults(FakeEffects()).partition("worker:0", "ps:0", at=1.0, one_way="yes")  # type: ignore[arg-type]
