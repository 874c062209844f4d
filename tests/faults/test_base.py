"""What all kinds of faults share: a name, a description, their notes in the trace; and what a new kind costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import pytest

from faults.fake_effects import FakeEffects
from simdist.errors import InvalidArgumentError
from simdist.faults.base import KINDS, Effects, Fault, Heal
from simdist.faults.network import Partition
from simdist.faults.plan import Faults
from simdist.faults.process import Crash, Pause, Slow
from simdist.faults.shapes import LastingFault, TaskFault
from simdist.faults.triggers import Trigger


@pytest.fixture
def kinds() -> Iterator[dict[str, type[Fault]]]:
    """All kinds; those that a test adds are gone after it."""
    before = dict(KINDS)
    yield KINDS
    KINDS.clear()
    KINDS.update(before)


def test_every_kind_is_known_by_its_name() -> None:
    assert {"crash": Crash, "slow": Slow, "pause": Pause, "partition": Partition} == KINDS


def test_a_new_kind_is_one_class(kinds: dict[str, type[Fault]]) -> None:
    @dataclass(eq=False)
    class Deaf(TaskFault, LastingFault, kind="deaf"):
        hears_from: str

        def lay(self, effects: Effects) -> Heal:
            return effects.cut(self.hears_from, self.task)

    effects = FakeEffects()
    fault = Faults(effects).plan(kinds["deaf"]("worker:0", "ps:0", until=2.0, trigger=Trigger(at=1.0)))  # type: ignore[call-arg]
    assert fault.describe() == "deaf('worker:0', at=1.0)"
    assert effects.move_to(1.5).laid == [("cut", "ps:0", "worker:0")]
    assert effects.move_to(2.0).laid == []
    assert effects.notes == [(1.0, "deaf", "worker:0", {"until": 2.0}), (2.0, "heal", "worker:0", {"kind": "deaf"})]
    assert fault.fired and fault.healed


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
        Faults(effects).plan(Nameless("worker:0", 2.0, trigger=Trigger(at=1.0)))


def test_parameters_of_every_kind_are_its_fields() -> None:
    common = {"trigger", "planned", "fired", "healed"}
    found = {kind: {field.name for field in fields(cls)} - common for kind, cls in KINDS.items()}
    assert found == {
        "crash": {"task", "restart_after"},
        "slow": {"task", "factor", "until"},
        "pause": {"task", "until"},
        "partition": {"a", "b", "one_way", "until"},
    }
