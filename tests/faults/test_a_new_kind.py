"""A new kind of fault is one class: this file has one, and touches no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.faults.base import KINDS
from simdist.faults.effects import Effects, Heal
from simdist.faults.parameters import number, task
from simdist.faults.plan import FaultPlan
from simdist.faults.shapes import LastingFault, TaskFault, all_of
from simdist.faults.table import kinds_table
from simdist.faults.triggers import Trigger


@pytest.fixture
def toy() -> Iterator[type[TaskFault]]:
    """A kind that makes a task slow and deaf to another at once; it is known while the test runs."""

    @dataclass(eq=False)
    class Tired(TaskFault, LastingFault, kind="tired"):
        factor: float = field(metadata=number("on its time", unit="times", at_least=1.0, below=100.0))
        deaf_to: str = field(default="ps:0", metadata=task("whom it does not hear"))

        def lay(self, effects: Effects) -> Heal:
            return all_of([effects.slow(self.task, self.factor), effects.cut(self.deaf_to, self.task)])

    yield Tired
    del KINDS["tired"]


def test_a_new_kind_fires_heals_and_is_told_by_trace_and_table(toy: type[TaskFault]) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    fault = cluster.faults.add(toy("worker:0", 4.0, until=2.0, trigger=Trigger(at=1.0)))  # type: ignore[call-arg]
    assert cluster.faults.state(fault) == "pending"
    sd.sleep(1.5, cluster)
    assert cluster.world.tasks["worker:0"].slowness == 4.0
    assert cluster.world.transport.blocked == {("ps:0", "worker:0")}
    assert cluster.faults.state(fault) == "fired"
    sd.sleep(1.0, cluster)
    assert cluster.world.tasks["worker:0"].slowness == 1.0 and not cluster.world.transport.blocked
    told = [(item.lane, item.category, item.time_s) for item in cluster.trace.instants]
    assert told == [("worker:0", "tired", 1.0), ("worker:0", "heal", 2.0)]
    assert repr(cluster.faults).splitlines()[1:] == [
        "tired('worker:0')  at=1.0  2 s   healed  1 s    2 s",
        "  factor=4.0",
    ]
    assert "| tired | factor | number | 1 or more, and less than 100 times | on its time |" in kinds_table()


def test_a_new_kind_travels_as_json_and_its_bounds_are_checked_by_name(toy: type[TaskFault]) -> None:
    plan = FaultPlan()
    plan.add(toy("worker:0", 4.0, until=2.0, trigger=Trigger(after_steps=3)))  # type: ignore[call-arg]
    text = plan.to_json()
    again = FaultPlan.from_json(text)
    assert again.to_json() == text
    assert isinstance(again.planned[0], toy)
    assert again.planned[0].figures == {"task": "worker:0", "factor": 4.0, "deaf_to": "ps:0", "until": 2.0}
    with pytest.raises(InvalidArgumentError, match=r"factor=100.* must be 1 or more, and less than 100 times: on its time\."):
        FaultPlan.from_json(text.replace("4.0", "100.0"))
