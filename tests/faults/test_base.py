"""What all kinds of faults share: a name, a description, their notes in the trace; and what a new kind costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import pytest

from faults.fake_effects import FakeEffects
from simdist.errors import InvalidArgumentError
from simdist.faults.base import KINDS, Fault
from simdist.faults.disk import DiskFull, DiskSlow, TornWrite
from simdist.faults.effects import Effects
from simdist.faults.links import Delay, Drop, Duplicate, SlowLink
from simdist.faults.network import Partition
from simdist.faults.process import Crash, LoseHost, Pause, Preempt, Slow
from simdist.faults.schedule import Faults
from simdist.faults.shapes import TaskFault
from simdist.faults.table import kinds_table
from simdist.faults.triggers import Trigger


@pytest.fixture
def kinds() -> Iterator[dict[str, type[Fault]]]:
    """All kinds; those that a test adds are gone after it."""
    before = dict(KINDS)
    yield KINDS
    KINDS.clear()
    KINDS.update(before)


def test_every_kind_is_known_by_its_name() -> None:
    network = {"partition": Partition, "drop": Drop, "delay": Delay, "duplicate": Duplicate, "slow_link": SlowLink}
    disks = {"disk_full": DiskFull, "disk_slow": DiskSlow, "torn_write": TornWrite}
    tasks = {"crash": Crash, "lose_host": LoseHost, "preempt": Preempt, "slow": Slow, "pause": Pause}
    assert {**tasks, **disks, **network} == KINDS


@pytest.mark.usefixtures("kinds")
def test_a_parameter_that_is_not_declared_is_refused() -> None:
    @dataclass(eq=False)
    class Vague(TaskFault, kind="vague"):
        much: float = 1.0

        def begin(self, effects: Effects) -> None: ...

    with pytest.raises(
        InvalidArgumentError, match=r"The parameter 'much' of Vague is not declared\. Write much: \.\.\. = field\(metadata="
    ):
        Faults(FakeEffects()).add(Vague("worker:0", trigger=Trigger(at=1.0)))


@pytest.mark.usefixtures("kinds")
def test_a_name_that_is_taken_is_refused_and_keeps_its_class() -> None:
    with pytest.raises(InvalidArgumentError, match=r"a kind of fault 'crash' already, Crash\. Give .*Other another name"):

        class Other(TaskFault, kind="crash"):
            def begin(self, effects: Effects) -> None: ...

    assert KINDS["crash"] is Crash


def test_a_class_that_is_written_again_takes_the_place_of_the_one_before(kinds: dict[str, type[Fault]]) -> None:
    def cell() -> type[Fault]:
        class Again(TaskFault, kind="again"):
            def begin(self, effects: Effects) -> None: ...

        return Again

    first, second = cell(), cell()
    assert first is not second
    assert kinds["again"] is second


def test_a_class_without_a_name_is_no_kind_and_cannot_be_planned() -> None:
    class Nameless(Slow):
        pass

    assert Nameless not in KINDS.values()
    effects = FakeEffects()
    with pytest.raises(InvalidArgumentError, match=r"Nameless has no name\. Write class Nameless\(\.\.\., kind="):
        Faults(effects).add(Nameless("worker:0", 2.0, trigger=Trigger(at=1.0)))


def test_parameters_of_every_kind_are_its_fields() -> None:
    common = {"trigger", "planned", "fired_s", "healed_s", "is_missed"}
    found = {kind: {field.name for field in fields(cls)} - common for kind, cls in KINDS.items()}
    assert found == {
        "crash": {"task", "restart_after", "keep_disk"},
        "lose_host": {"task", "restart_after"},
        "drop": {"source", "target", "messages", "probability", "until"},
        "delay": {"source", "target", "seconds", "spread", "messages", "probability", "until"},
        "duplicate": {"source", "target", "messages", "probability", "until"},
        "slow_link": {"source", "target", "bandwidth_factor", "latency_factor", "until"},
        "preempt": {"task", "notice", "restart_after"},
        "slow": {"task", "factor", "until"},
        "disk_full": {"task", "until"},
        "disk_slow": {"task", "factor", "until"},
        "torn_write": {"task", "writes"},
        "pause": {"task", "until"},
        "partition": {"a", "b", "one_way", "until"},
    }


def test_every_parameter_says_what_it_takes() -> None:
    for cls in KINDS.values():
        for name, parameter in cls.parameters().items():
            assert parameter.says and parameter.bounds and parameter.type, (cls, name)


def test_the_table_of_kinds_has_a_row_for_each_parameter() -> None:
    rows = kinds_table().splitlines()[2:]
    assert len(rows) == sum(len(cls.parameters()) for cls in KINDS.values())
    assert "| slow_link | bandwidth_factor | number | 1 or more, and finite | that divides the bandwidth |" in rows
    assert "| drop | probability | number | more than 0, and at most 1 | that it befalls a message |" in rows
    assert (
        "| crash | restart_after | number | 0 or more, and less than 1e+15 s, or None | seconds from the death on; None is for never |"
        in rows
    )


def test_a_message_names_none_once() -> None:
    with pytest.raises(InvalidArgumentError, match=r"a virtual second, or None for ever\.$"):
        Pause("worker:0", trigger=Trigger(at=1.0), until=float("nan")).check(FakeEffects())
