"""Plans as text, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.faults.base import KINDS
from simdist.faults.plan import FaultPlan


def of_every_kind() -> FaultPlan:
    plan = FaultPlan()
    plan.crash("worker:1", at=1.0, restart_after=2.5)
    plan.crash("worker:1", at=1.0, keep_disk=False)
    plan.lose_host("chief:1", after_steps=3)
    plan.preempt("chief", 30.0, after_steps=3, restart_after=1.0)
    plan.disk_full("ps:0", at=1.0, until=2.0)
    plan.disk_slow("ps:0", 3, after_steps=2)
    plan.torn_write("worker:1", at=0.0, writes=2)
    plan.slow("worker:0", 3, at=0.5, until=2.0)
    plan.pause("ps:0", after_steps=4)
    plan.partition("chief", ["worker:0", "ps:0"], at=0.1, one_way=True)
    plan.drop("worker:0", "ps:0", kind="update", at=0.0, probability=0.25)
    plan.delay(["worker:0", "worker:1"], "ps:0", 0.1, 0.2, kind="reply", at=0.0, until=9.0)
    plan.duplicate("ps:0", "worker:0", after_steps=1)
    plan.slow_link("worker:0", "worker:1", 10.0, 2.0, at=3.0)
    return plan


def test_a_plan_of_every_kind_comes_back_figure_by_figure() -> None:
    plan = of_every_kind()
    assert {fault.kind for fault in plan} == set(KINDS)
    again = FaultPlan.from_json(plan.to_json())
    assert [(type(f), f.figures, f.trigger) for f in again] == [(type(f), f.figures, f.trigger) for f in plan]
    assert again.to_json() == plan.to_json()


def test_the_text_has_what_differs_from_the_defaults_and_a_version() -> None:
    plan = FaultPlan()
    plan.slow("worker:0", 3, at=0.5)
    assert json.loads(plan.to_json()) == {"version": 1, "faults": [{"kind": "slow", "task": "worker:0", "factor": 3.0, "at": 0.5}]}


def test_a_predicate_has_no_text() -> None:
    plan = FaultPlan()
    plan.crash("worker:0", when=lambda cluster: True)
    with pytest.raises(InvalidArgumentError, match=r"crash\('worker:0', when=\.\.\.\) begins when a predicate holds, which has no text"):
        plan.to_json()


SLOW: dict[str, Any] = {"kind": "slow", "task": "worker:0", "factor": 3.0, "at": 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "slwo"}, r"kind='slwo' of a fault is not known\. Did you mean 'slow'\?"),
        ({"kind": 5}, "kind=5 of a fault is not known"),
        ({"fator": 2.0}, r"slow has no figure 'fator'\. Did you mean 'factor'\?"),
        ({"planned": True}, "slow has no figure 'planned'"),
        ({"trigger": 1}, "slow has no figure 'trigger'"),
        ({"factor": "3"}, "factor='3' must be more than 0, and finite"),
        ({"factor": -1}, "factor=-1 must be"),
        ({"task": 3}, "task=3 is no name of a task"),
        ({"at": None}, "needs exactly one of"),
        ({"after_steps": 2}, "got 2 of them"),
        ({"until": 0.25}, "until=0.25 s is not after the beginning"),
    ],
)
def test_a_fault_that_is_not_known_or_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    text = json.dumps({"version": 1, "faults": [{**SLOW, **change}]})
    with pytest.raises(InvalidArgumentError, match=message):
        FaultPlan.from_json(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "This is no plan of faults"),
        ("[]", "has not the fields 'version' and 'faults'"),
        ('{"version": 1, "faults": [], "more": 1}', "and no others"),
        ('{"version": 2, "faults": []}', r"version=2 of a plan of faults is not known\. Known: 1"),
        ('{"version": true, "faults": []}', "version=True"),
        ('{"version": 1, "faults": {}}', "must be a list"),
        ('{"version": 1, "faults": [5]}', "5 is no fault"),
        ('{"version": 1, "faults": [{"kind": "crash", "task": "ps:0", "at": 1, "at": 2}]}', "'at' is there twice"),
        ('{"version": 1, "faults": [{"kind": "slow", "at": 1.0}]}', "slow lacks the figures 'task', 'factor'"),
        ('{"version": 1, "faults": [{"kind": "slow", "task": "worker:0", "factor": NaN, "at": 1.0}]}', "factor=nan must be"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        FaultPlan.from_json(text)


def test_a_plan_is_planned_for_many_clusters_all_of_it_or_nothing() -> None:
    plan = FaultPlan()
    plan.slow("worker:0", 3.0, at=0.5)
    plan.pause("worker:1", at=0.5)
    small, large = sd.Cluster({"worker": 1}), sd.Cluster({"worker": 2})
    with pytest.raises(InvalidArgumentError, match=r"There is no task 'worker:1'"):
        small.faults.extend(plan)
    assert len(small.faults) == 0
    large.faults.extend(plan)
    sd.sleep(1.0, large)
    assert [fault.fired for fault in large.faults] == [True, True]
    assert [fault.fired for fault in plan] == [False, False]
    sd.Cluster({"worker": 2}).faults.extend(plan)


def test_only_a_plan_extends_a_plan() -> None:
    with pytest.raises(TypeError, match="extend takes a FaultPlan; got list"):
        FaultPlan().extend([])  # type: ignore[arg-type]
