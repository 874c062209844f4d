"""A step: one operation after the other, to its end, to an error, or until somebody stops it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simdist.program.collective import Collective
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import ApplyAll, CheckFinite, LinkedCollective, MakeKey, ReadGroups, RunKernel, TakeBatch


def bundle(*values: float) -> Bundle:
    return Bundle.of([np.float32(value) for value in values])


READ, BATCH, KEY = ReadGroups(((7, 0, 4), (8, 1, 4))), TakeBatch(0, 0), MakeKey(5, 0)
RUN: Any = RunKernel(0, SimpleNamespace(), (), (), (0, 1), 0, (("batch", 0), ("key", 0), ("argument", 1)), (2, 3), False)  # type: ignore[arg-type]
MEET = LinkedCollective(Collective("all_reduce", (), (), 2), 3, 4)
CHECK = CheckFinite(4, "a value")
UPDATE: Any = ApplyAll(tuple([SimpleNamespace(operands=slot, rows=(), sums=(), of_rows=None) for slot in (4, 2)]))  # type: ignore[misc]
OPERATIONS = (READ, BATCH, KEY, RUN, MEET, CHECK, UPDATE)
BATCHED = SimpleNamespace(leaves=lambda: ["leaf"])
RESULTS = {READ: [bundle(1), bundle(2)], BATCH: BATCHED, RUN: [bundle(3), bundle(4)], MEET: bundle(5), UPDATE: None}


def linked(operations: Any = OPERATIONS, result: int = 4) -> Any:
    return SimpleNamespace(operations=operations, slots=((),) * 6, constants=((5, bundle(9)),), result=result)


class Task:
    """Answers at once, or is asked to wait; writes down what it was asked.

    Args:
        late: operations that are pending.
        fails: what to raise, by operation.
    """

    def __init__(self, late: Any = (), fails: dict[Any, Exception] | None = None) -> None:
        self.late = late
        self.fails = fails or {}
        self.asked: list[Any] = []
        self.done = 0
        self.step: Any = None

    def _answer(self, op: Any, *given: Any) -> Any:
        self.asked.append((op, *given))
        if op in self.fails:
            raise self.fails[op]
        return PENDING if op in self.late else RESULTS.get(op)

    def next_batch(self, iterator: Any) -> Any:
        return self._answer(BATCH, iterator)

    def random_key(self, salt: int) -> Any:
        self._answer(KEY, salt)
        return "key"

    def read(self, op: Any) -> Any:
        return self._answer(op)

    def compute(self, op: Any, inputs: Any, batch: Any, host: Any) -> Any:
        return self._answer(op, tuple(inputs), batch, host)

    def collective(self, op: Any, operands: Any) -> Any:
        return self._answer(op, operands)

    def update(self, op: Any, operands: Any) -> Any:
        return self._answer(op, tuple(operands))

    def check(self, op: Any, given: Any) -> None:
        self._answer(op, given)

    def step_done(self) -> None:
        self.done += 1


def step_of(task: Task, ended: Callable[[Step], bool | None], **options: Any) -> Step:
    return Step(linked(**options), task, ["iterator"], ("argument 0", "argument 1"), ended)  # type: ignore[arg-type]


def what_was_asked(operations: int = len(OPERATIONS)) -> list[Any]:
    read, (three, four), five = RESULTS[READ], RESULTS[RUN], RESULTS[MEET]
    asked = [
        (READ,),
        (BATCH, "iterator"),
        (KEY, 5),
        (RUN, tuple(read), BATCHED, ("leaf", "key", "argument 1")),
        (MEET, four),
        (CHECK, five),
        (UPDATE, (five, three)),
    ]
    return asked[:operations]


def test_operations_that_answer_at_once_run_to_the_end() -> None:
    task, ended = Task(), list[Any]()
    step = step_of(task, lambda step: ended.append(step.result))
    step.go()
    assert task.asked == what_was_asked()
    assert (ended, task.done, step.over, step.error) == ([RESULTS[MEET]], 1, True, None)


@pytest.mark.parametrize("late", [(), (READ,), (RUN, UPDATE), tuple(RESULTS)])
def test_operations_that_are_pending_go_on_with_their_result(late: Any) -> None:
    task, ended = Task(late), list[Any]()
    step = step_of(task, lambda step: ended.append(step.result))
    step.go()
    for number, op in enumerate(late):
        assert ended == [] and task.asked[-1][0] is op, number
        task.step.go(RESULTS[op])
    assert task.asked == what_was_asked()
    assert (ended, task.done) == ([RESULTS[MEET]], 1)


def test_an_operation_that_raises_fails_the_step_there() -> None:
    error, ended = ValueError("on purpose"), list[Any]()
    task = Task(fails={MEET: error})
    step = step_of(task, lambda step: ended.append(step.error))
    step.go()
    assert task.asked == what_was_asked(5)
    assert (ended, task.done, step.over) == ([error], 0, True)


def test_a_pending_operation_may_fail() -> None:
    error, ended = ValueError("on purpose"), list[Any]()
    task = Task(late=(READ,))
    step = step_of(task, lambda step: ended.append(step.error))
    step.go()
    task.step.fail(error)
    task.step.fail(ValueError("again"))
    task.step.go(RESULTS[READ])
    assert (ended, step.error, task.asked) == ([error], error, what_was_asked(1))


def test_a_step_that_was_stopped_calls_nobody() -> None:
    task, ended = Task(late=(RUN,)), list[Any]()
    step = step_of(task, ended.append)  # type: ignore[arg-type]
    step.go()
    step.stop()
    task.step.go(RESULTS[RUN])
    task.step.fail(ValueError("late"))
    assert (ended, task.done, step.over) == ([], 0, True)
    assert task.asked == what_was_asked(4)


def test_who_is_told_of_the_end_may_take_another_step_with_nothing_left_of_the_last() -> None:
    task, results = Task(), list[Any]()

    def ended(step: Step) -> bool:
        results.append(step.result)
        return len(results) < 3

    step = step_of(task, ended)
    step.go()
    assert (len(results), task.done, step.over) == (3, 3, True)
    assert task.asked == what_was_asked() * 3


def test_who_is_told_of_the_end_may_stop_the_step() -> None:
    task, ended = Task(), list[int]()

    def end(step: Step) -> bool:
        ended.append(1)
        step.over = True
        return True

    step_of(task, end).go()
    assert (ended, task.done) == ([1], 1)


def test_a_program_without_results_gives_an_empty_bundle_and_constants_have_slots() -> None:
    task, ended = Task(), list[Step]()
    step_of(task, ended.append, operations=(), result=-1).go()  # type: ignore[arg-type]
    assert ended[0].result.avals == ()
    step_of(task, ended.append, operations=(), result=5).go()  # type: ignore[arg-type]
    assert [float(array) for array in ended[1].result.arrays] == [9]
