"""An operation returns its result, or PENDING and then calls `go` or `fail`: exactly once, and never before it has returned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.runtime.base import PENDING, StepInProgress, TaskRuntime
from simdist.runtime.interpreter import Step
from tests.runtime.conformance.driver import Driver, Replicas, exchanged, random_key
from tests.runtime.proxy import behind

OPERATIONS = ("next_batch", "random_key", "read", "compute", "collective", "update", "check", "step_done")


class CountingStep:
    """Stands for a step before its task runtime; writes down what it is told."""

    def __init__(self, step: Step, log: list[str]) -> None:
        self.step = step
        self.log = log

    @property
    def over(self) -> bool:
        return self.step.over

    def go(self, result: Any = None) -> None:
        self.log.append("go")
        self.step.go(result)

    def fail(self, error: BaseException) -> None:
        self.log.append("fail")
        self.step.fail(error)


class Watched:
    """A task runtime whose operations are written down; the step has its protocol's attributes only."""

    def __init__(self, runtime: TaskRuntime, log: list[str]) -> None:
        object.__setattr__(self, "runtime", behind(runtime, TaskRuntime))
        object.__setattr__(self, "log", log)

    def __setattr__(self, name: str, value: Any) -> None:
        assert name == "step"
        stand_in: StepInProgress = CountingStep(value, self.log)
        setattr(self.runtime, name, stand_in)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.runtime, name)

        def operation(*args: Any) -> Any:
            self.log.append(name)
            result = method(*args)
            self.log.append("pending" if result is PENDING else "done")
            return result

        return operation


@pytest.fixture
def logs(monkeypatch: Any) -> Iterator[list[list[str]]]:
    """What each step has done, in order."""
    found: list[list[str]] = []
    begin = Step.__init__

    def watched(self: Step, linked: Any, task: Any, *rest: Any) -> None:
        found.append([])
        begin(self, linked, Watched(task, found[-1]), *rest)

    monkeypatch.setattr(Step, "__init__", watched)
    yield found


def checked(log: list[str]) -> set[str]:
    """The operations of a step; each was answered once, and after it had returned."""
    seen, state = set[str](), "running"
    for event in log:
        if state == "running":
            assert event in OPERATIONS, f"{event} came unasked: {log}"
            seen.add(event)
            state = "called"
        elif state == "called":
            assert event in ("pending", "done", "raised"), f"{event} came before the operation had returned: {log}"
            state = "running" if event == "done" else "pending"
        else:
            assert event in ("go", "fail"), f"{event} came while an operation was pending: {log}"
            state = "running"
    assert state != "pending", f"a pending operation was never answered: {log}"
    return seen


def test_operations_of_a_worker_are_answered_once(logs: list[list[str]], driver: Driver) -> None:
    placed = [driver.variable(np.float32(0), place, name=place) for place in ("ps:0", "ps:1", "worker:0", "chief:0", "worker:1")]
    iterator = iter(sd.Dataset.from_tensor_slices(np.ones(8, np.float32)).batch(2))

    def step(batches: Any) -> Any:
        batch = next(batches)
        noise = random_key(0)
        for variable in placed:
            variable.assign_add(sd.check_numerics(batch.sum() + variable.value, "a sum"))
        return noise, placed[0].value

    driver.call("worker:0", step, iterator, repeat=3).wait()
    assert len(logs) == 1
    assert checked(logs[0]) == set(OPERATIONS) - {"collective"}
    assert logs[0].count("step_done") == 3


def test_operations_of_replicas_are_answered_once(logs: list[list[str]], driver: Driver) -> None:
    places = ("worker:0/gpu:0", "worker:0/gpu:1", "worker:1")
    replicas = Replicas(driver, places)
    equal, own = driver.variable(np.float32(0), *places), driver.one_each(np.float32(0), *places)

    def step(batches: Any) -> Any:
        one, other = exchanged("all_reduce", next(batches)), exchanged("all_gather", own.value)
        own.assign_add(np.float32(1) + 0 * random_key(0)[0])
        equal.assign(sd.check_numerics(one[0].sum() + equal.value, "a sum"))
        return other

    replicas.step(step, [iter(sd.Dataset.from_tensor_slices(np.ones(2, np.float32)).batch(2)) for _ in places])
    assert len(logs) == 3
    assert [checked(log) for log in logs] == [set(OPERATIONS)] * 3


@pytest.mark.parametrize("fails", ["a sum", "another shape"])
def test_operations_of_replicas_that_fail_are_answered_at_most_once(fails: str, logs: list[list[str]], driver: Driver) -> None:
    replicas = Replicas(driver, ("worker:0", "worker:1"))

    def step(own: Any) -> Any:
        return exchanged("all_reduce", sd.check_numerics(own * 2, "a sum"))

    second = np.float32([np.inf]) if fails == "a sum" else np.float32([1, 1])
    with pytest.raises(InvalidArgumentError):
        replicas.step(step, [np.float32([1]), second])
    for log in logs:
        ended = log[:-1] if log[-1] in OPERATIONS else log  # the operation that raised
        if ended and ended[-1] == "pending":
            ended = [*ended, "go"]  # nobody waits for what a step that is over has asked for
        checked(ended)


def test_nothing_is_answered_after_the_end_of_a_step(logs: list[list[str]], driver: Driver) -> None:
    variable = driver.variable(np.float32(0), "ps:0")
    driver.call("worker:0", lambda: variable.assign_add(np.float32(1))).wait()
    before = [list(log) for log in logs]
    driver.engine.sleep(1.0)
    assert logs == before
    assert logs[0][-2:] == ["step_done", "done"]
