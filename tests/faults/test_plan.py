"""When what was planned fires, what never fires, and what is not planned at all."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from faults.fake_effects import FakeEffects
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.faults.base import Fault
from simdist.faults.plan import FaultPlan
from simdist.faults.process import Crash, Slow
from simdist.faults.schedule import Faults
from simdist.faults.triggers import Trigger

LASTING: dict[str, Callable[..., Fault]] = {
    "slow": lambda faults, **options: faults.slow("worker:0", 2.0, **options),
    "pause": lambda faults, **options: faults.pause("worker:0", **options),
    "partition": lambda faults, **options: faults.partition("worker:0", "ps:0", **options),
}
ALL = {"crash": lambda faults, **options: faults.crash("worker:0", **options), **LASTING}


@pytest.fixture
def effects() -> FakeEffects:
    return FakeEffects()


@pytest.fixture
def faults(effects: FakeEffects) -> Faults:
    return Faults(effects)


def unfired(faults: Faults) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        faults.warn_about_unfired()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_begins_at_its_second_and_not_before(kind: str, faults: Faults, effects: FakeEffects) -> None:
    fault = ALL[kind](faults, at=1.0)
    effects.move_to(0.999)
    assert not fault.fired
    effects.move_to(1.0)
    assert fault.fired


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_begins_once_after_the_steps_of_its_task(kind: str, faults: Faults, effects: FakeEffects) -> None:
    fault = ALL[kind](faults, after_steps=3)
    effects.step("worker:1", 9).step("worker:0", 2)
    assert not fault.fired
    effects.step("worker:0", 5)
    assert fault.fired
    assert len(effects.crashes) + len([note for note in effects.notes if note[2] == "worker:0"]) == 1


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_begins_as_soon_as_its_predicate_holds(kind: str, faults: Faults, effects: FakeEffects) -> None:
    fault = ALL[kind](faults, when=lambda cluster: cluster.steps["ps:0"] >= 2)
    effects.step("ps:0")
    assert not fault.fired
    effects.step("ps:0")
    assert fault.fired


@pytest.mark.parametrize("kind", LASTING)
def test_a_fault_whose_end_has_passed_never_fires(kind: str, faults: Faults, effects: FakeEffects) -> None:
    fault = LASTING[kind](faults, after_steps=1, until=2.0)
    effects.move_to(2.0).step("worker:0", 3).move_to(5.0)
    assert (fault.fired, fault.healed, effects.laid, effects.notes) == (False, False, [], [])
    assert unfired(faults) == [f"The fault {fault.describe()} never fired: the run ended before its moment came."]


@pytest.mark.parametrize("kind", LASTING)
@pytest.mark.parametrize("trigger", [{"at": 3.0}, {"after_steps": 1}, {"when": bool}])
def test_an_end_that_is_not_after_the_beginning_is_refused(kind: str, trigger: dict[str, Any]) -> None:
    effects = FakeEffects(now=3.0)
    faults = Faults(effects)
    with pytest.raises(InvalidArgumentError, match=r"until=3\.0 s is not after the beginning, 3 s"):
        LASTING[kind](faults, until=3.0, **trigger)
    assert (faults.planned, effects.step_ended) == ([], [])


def test_who_fired_is_not_warned_about(faults: Faults, effects: FakeEffects) -> None:
    faults.crash("worker:0", at=1.0)
    faults.pause("ps:0", after_steps=4)
    effects.move_to(2.0)
    assert unfired(faults) == ["The fault pause('ps:0', after_steps=4) never fired: the run ended before its moment came."]


def test_all_whose_moment_has_come_fire_at_the_end_of_one_step(faults: Faults, effects: FakeEffects) -> None:
    for factor in (2.0, 3.0):
        faults.slow("worker:0", factor, after_steps=1)
    faults.slow("worker:0", 5.0, after_steps=2)
    assert [laid[2] for laid in effects.step("worker:0").laid] == [2.0, 3.0]
    assert [laid[2] for laid in effects.step("worker:0").laid] == [2.0, 3.0, 5.0]


def test_a_step_that_ends_within_the_beginning_of_a_fault_fires_no_other_twice(faults: Faults, effects: FakeEffects) -> None:
    faults.crash("worker:0", after_steps=1)
    faults.crash("worker:1", when=lambda cluster: bool(cluster.crashes))
    crash = effects.crash

    def crash_and_step(task: str, *rest: Any) -> None:
        crash(task, *rest)
        if task == "worker:0":
            effects.step("ps:0")

    effects.crash = crash_and_step  # type: ignore[method-assign]
    effects.step("worker:0")
    assert [task for _, task, _, _ in effects.crashes] == ["worker:0", "worker:1"]


def test_a_predicate_that_fails_is_told_to_the_driver_and_not_asked_again(faults: Faults, effects: FakeEffects) -> None:
    asked: list[int] = []

    def predicate(cluster: Any) -> bool:
        asked.append(len(asked))
        raise KeyError("loss")

    fault = faults.pause("worker:0", when=predicate)
    healthy = faults.crash("worker:0", after_steps=1)
    effects.step("worker:0", 3)
    (error,) = effects.told
    assert "The predicate of pause('worker:0', when=...) failed: KeyError: 'loss'. " in str(error)
    assert isinstance(error, InvalidArgumentError) and isinstance(error.__cause__, KeyError)
    assert (asked, fault.fired, healthy.fired) == ([0], False, True)


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_without_a_moment_is_refused_and_not_planned(kind: str, faults: Faults) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{kind} needs exactly one of"):
        ALL[kind](faults)
    assert faults.planned == []


def test_a_predicate_that_held_too_late_is_not_asked_again(faults: Faults, effects: FakeEffects) -> None:
    asked: list[float] = []
    fault = faults.slow("worker:0", 2.0, when=lambda cluster: asked.append(cluster.now) is None, until=1.0)
    effects.move_to(2.0).step("worker:0", 3)
    assert (asked, fault.fired) == ([2.0], False)


def test_nothing_listens_to_steps_while_no_fault_depends_on_them(faults: Faults, effects: FakeEffects) -> None:
    faults.crash("worker:0", at=1.0)
    assert effects.step_ended == []
    for _ in range(2):
        faults.crash("worker:0", after_steps=1)
    assert len(effects.step_ended) == 1


def test_a_closed_cluster_takes_no_plan(faults: Faults, effects: FakeEffects) -> None:
    effects.is_open = False
    with pytest.raises(FailedPreconditionError, match="A fault was planned"):
        faults.pause("worker:0", at=1.0)
    assert faults.planned == []


def test_a_fault_is_planned_once(faults: Faults) -> None:
    fault = faults.add(Slow("worker:0", 2.0, trigger=Trigger(at=1.0)))
    for other in (faults, Faults(FakeEffects())):
        with pytest.raises(InvalidArgumentError, match=r"slow\('worker:0', at=1\.0\) is planned already"):
            other.add(fault)
    assert faults.planned == [fault]


def test_what_was_refused_may_be_planned_where_it_makes_sense(faults: Faults) -> None:
    fault = Crash("worker:0", trigger=Trigger(at=1.0))
    with pytest.raises(InvalidArgumentError, match="in the past"):
        Faults(FakeEffects(now=2.0)).add(fault)
    assert faults.add(fault) is fault


def test_something_else_than_a_fault_is_refused(faults: Faults) -> None:
    with pytest.raises(TypeError, match=r"add takes a fault.*got dict"):
        faults.add({"kind": "crash"})  # type: ignore[type-var]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
def test_copy_of_a_plan_is_a_plan_of_its_own(copied: Callable[[FaultPlan], FaultPlan]) -> None:
    cluster = sd.Cluster({"worker": 2})
    crash = cluster.faults.crash("worker:1", at=1.0)
    sd.sleep(2.0, cluster)
    assert crash.fired
    other = copied(cluster.faults)
    assert type(other) is FaultPlan and other.to_json() == cluster.faults.to_json()
    assert [other.state(fault) for fault in other] == ["pending"]
    other.slow("worker:0", 2.0, at=3.0)
    assert (len(other), len(cluster.faults)) == (2, 1)
    cluster.fresh().faults.extend(other)
