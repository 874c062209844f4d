"""An operation returns its result, or PENDING and then calls `go` or `fail`: exactly once, and never before it has returned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.runtime.base import PENDING, TaskRuntime
from simdist.runtime.interpreter import Step
from tests.runtime.conformance.driver import Driver, Replicas, exchanged, random_key
from tests.runtime.proxy import behind

OPERATIONS = ("next_batch", "random_key", "read", "compute", "collective", "update", "check", "step_done")


class Watched:
    """A task runtime whose operations are written down; the step sees its protocol's attributes only."""

    def __init__(self, runtime: TaskRuntime, log: list[str]) -> None:
        object.__setattr__(self, "runtime", behind(runtime, TaskRuntime))
        object.__setattr__(self, "log", log)

    def __setattr__(self, name: str, value: Any) -> None:
        assert name == "step"
        setattr(self.runtime, name, value)

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
    """What each step has done, in order: its operations, whether they were pending, and how it was answered."""
    of: dict[int, list[str]] = {}
    kept: list[Step] = []  # so that no other step gets the identity of one that is gone
    begin, go, fail = Step.__init__, Step.go, Step.fail

    def watched(self: Step, linked: Any, task: Any, *rest: Any) -> None:
        kept.append(self)
        log = of[id(self)] = []
        begin(self, linked, Watched(task, log), *rest)

    def gone_on(self: Step, result: Any = None) -> None:
        if of[id(self)]:  # otherwise it begins
            of[id(self)].append("go")
        go(self, result)

    def failed(self: Step, error: BaseException) -> None:
        of[id(self)].append("fail")
        fail(self, error)

    for name, method in (("__init__", watched), ("go", gone_on), ("fail", failed)):
        monkeypatch.setattr(Step, name, method)
    found: Any = of.values()
    yield found


def checked(log: list[str]) -> set[str]:
    """The operations of a step; each was answered once, and after it had returned."""
    seen, state = set[str](), "running"
    for event in log:
        assert state != "failed", f"{event} came after the step had failed: {log}"
        if state == "running":
            assert event in OPERATIONS, f"{event} came unasked: {log}"
            seen.add(event)
            state = "called"
        elif state == "called":
            assert event in ("pending", "done", "fail"), f"{event} came before the operation had returned: {log}"
            state = {"done": "running", "pending": "pending", "fail": "failed"}[event]
        else:
            assert event in ("go", "fail"), f"{event} came while an operation was pending: {log}"
            state = "running" if event == "go" else "failed"
    return seen


def is_whole(log: list[str]) -> bool:
    """Whether nothing of a step is left pending."""
    return log[-1] != "pending"


def test_operations_of_a_worker_are_answered_once(logs: list[list[str]], driver: Driver) -> None:
    placed = [driver.variable(np.float32(0), device, name=device) for device in ("ps:0", "ps:1", "worker:0", "chief:0", "worker:1")]
    iterator = iter(sd.Dataset.from_tensor_slices(np.ones(8, np.float32)).batch(2))

    def step(batches: Any) -> Any:
        batch = next(batches)
        noise = random_key(0)
        for variable in placed:
            variable.assign_add(sd.check_numerics(batch.sum() + variable.value, "a sum"))
        return noise, placed[0].value

    driver.call("worker:0", step, iterator, repeat=3).wait()
    for log in logs:  # of one step three times, or of three
        assert checked(log) == set(OPERATIONS) - {"collective"} and is_whole(log)
    assert sum(log.count("step_done") for log in logs) == 3


def test_operations_of_replicas_are_answered_once(logs: list[list[str]], driver: Driver) -> None:
    devices = ("worker:0/gpu:0", "worker:0/gpu:1", "worker:1")
    replicas = Replicas(driver, devices)
    equal, own = driver.variable(np.float32(0), *devices), driver.one_each(np.float32(0), *devices)

    def step(batches: Any) -> Any:
        one, other = exchanged("all_reduce", next(batches)), exchanged("all_gather", own.value)
        own.assign_add(np.float32(1) + 0 * random_key(0)[0])
        equal.assign(sd.check_numerics(one[0].sum() + equal.value, "a sum"))
        return other

    replicas.step(step, [iter(sd.Dataset.from_tensor_slices(np.ones(2, np.float32)).batch(2)) for _ in devices])
    assert len(logs) == 3
    assert [checked(log) for log in logs] == [set(OPERATIONS)] * 3
    assert all(map(is_whole, logs))


@pytest.mark.parametrize("fails", ["a sum", "another shape"])
def test_operations_of_replicas_that_fail_are_answered_at_most_once(fails: str, logs: list[list[str]], driver: Driver) -> None:
    replicas = Replicas(driver, ("worker:0", "worker:1"))

    def step(own: Any) -> Any:
        return exchanged("all_reduce", sd.check_numerics(own * 2, "a sum"))

    second = np.float32([np.inf]) if fails == "a sum" else np.float32([1, 1])
    with pytest.raises(InvalidArgumentError):
        replicas.step(step, [np.float32([1]), second])
    for log in logs:
        checked(log)


def test_nothing_is_answered_after_the_end_of_a_step(logs: list[list[str]], driver: Driver) -> None:
    variable = driver.variable(np.float32(0), "ps:0")
    driver.call("worker:0", lambda: variable.assign_add(np.float32(1))).wait()
    before = [list(log) for log in logs]
    driver.pass_time(1.0)
    assert [list(log) for log in logs] == before
    assert before[0][-2:] == ["step_done", "done"]
