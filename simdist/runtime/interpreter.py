"""The interpreter: it runs a linked program on a task, one operation after the other, through the wall.

An operation that takes time returns `PENDING`; the step goes on when its engine calls `go`. A step is no fiber: it holds its slots and
the index of its next operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.program.arrays import Array, Arrays
from simdist.program.row_numbers import RowNumbers
from simdist.program.step_iterator import StepBatch, StepIterator, leaf_of
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, OperationResult, TaskRuntime
from simdist.runtime.linked import (
    Apply,
    ApplyAll,
    CheckFinite,
    LinkedCollective,
    LinkedOperation,
    MakeKey,
    ReadGroups,
    ReadWithRows,
    RunKernel,
    Runnable,
    TakeBatch,
)
from simdist.runtime.linked_rows import RowOperands, operands_of
from simdist.runtime.row_sums import change_of

__all__ = ["OVER", "Step"]

NOTHING = Bundle((), ())


class Step:
    """One step of a program on a task, or several of the same program, one after the other.

    Args:
        linked: the program with its places.
        task: the runtime of the task.
        iterators: the iterator arguments of the call, in order.
        arguments: the array arguments of the call, leaf by leaf.
        ended: is called at the end of each step, with its result or an error; True: take another step.

    Attributes:
        result: the bundle of the results of the step that has ended last.
        error: what the step failed with.
        over: whether it does nothing any more.
    """

    __slots__ = (
        "arguments",
        "batches",
        "ended",
        "error",
        "iterators",
        "keys",
        "linked",
        "over",
        "position",
        "result",
        "rows",
        "slots",
        "task",
    )

    def __init__(
        self,
        linked: Runnable,
        task: TaskRuntime,
        iterators: Sequence[StepIterator],
        arguments: Arrays,
        ended: Callable[[Step], bool | None],
    ) -> None:
        self.linked = linked
        self.task = task
        self.iterators = iterators
        self.arguments = arguments
        self.ended = ended
        self.slots: list[Bundle] = []
        self.batches: list[StepBatch] = []
        self.keys: list[Array] = []
        self.rows: dict[int, RowNumbers] = {}  # by the number of the row read
        self.position = -1
        self.result = NOTHING
        self.error: BaseException | None = None
        self.over = False
        task.step = self

    def go(self, result: OperationResult = None) -> None:
        """Begin, or continue with the result of the pending operation: until the next one is pending, or to the end."""
        operations = self.linked.operations
        end = len(operations)
        while not self.over:
            position, self.position = self.position, -1
            try:
                if position < 0:
                    self._begin()
                slots = self.slots
                while True:
                    if position >= 0:
                        op = operations[position]
                        # `type(op) is` costs a third of `isinstance`, and this is the innermost loop of all schedules.
                        if type(op) is RunKernel or type(op) is ReadGroups or type(op) is ReadWithRows:
                            for slot, bundle in zip(op.outputs, result, strict=True):
                                slots[slot] = bundle
                        elif type(op) is LinkedCollective:
                            slots[op.output] = result
                        elif type(op) is TakeBatch:
                            self.batches.append(result)
                    position += 1
                    if position == end:
                        break
                    result = self._start(operations[position])
                    if result is PENDING:
                        self.position = position
                        return
                self.task.step_done()
            except Exception as error:
                self.fail(error)
                return
            self.result = slots[self.linked.result] if self.linked.result >= 0 else NOTHING
            if self.over or not self.ended(self):
                self._close()

    def fail(self, error: BaseException) -> None:
        """End the step with an error."""
        if not self.over:
            ended = self.ended
            self._close()
            self.error = error
            ended(self)

    def stop(self) -> None:
        """End the step without calling `ended`."""
        self._close()

    def _close(self) -> None:
        """Nothing is done any more. Whatever still knows this step, until the collector comes by, shall not keep its numbers alive."""
        self.over = True
        self.slots, self.batches, self.keys, self.arguments = [], [], [], ()
        self.ended = _tells_nobody

    def _begin(self) -> None:
        self.slots = [NOTHING] * len(self.linked.slots)
        for slot, bundle in self.linked.constants:
            self.slots[slot] = bundle
        self.batches, self.keys = [], []

    def _start(self, op: LinkedOperation) -> OperationResult:
        """Begin an operation; what has no result of its own is over at once."""
        task, slots = self.task, self.slots
        if type(op) is RunKernel:
            batch = None if op.batch is None else self.batches[op.batch]
            host = self._host_arrays(op) if op.host else ()
            return task.compute(op, [slots[slot] for slot in op.slots], batch, host)
        if type(op) is ReadGroups:
            return task.read(op)
        if type(op) is ApplyAll:
            if op.takes_sums:
                return self._update_by_sums(op)
            given = operands_of(op.parts, slots, self.rows) if op.moves_rows else [slots[part.operands] for part in op.parts]
            return task.update(op, given)
        if type(op) is ReadWithRows:
            for table in op.tables:
                self.rows[table.number] = table.ids.numbers([self._source(*source) for source in table.sources])
            return task.read_rows(op, [self.rows[table.number] for table in op.tables])
        if type(op) is LinkedCollective:
            return task.collective(op, slots[op.operands])
        if type(op) is TakeBatch:
            return task.next_batch(self.iterators[op.iterator])
        if type(op) is MakeKey:
            self.keys.append(task.random_key(op.salt))
        elif type(op) is CheckFinite:
            task.check(op, slots[op.slot])
        return None

    def _update_by_sums(self, op: ApplyAll) -> OperationResult:
        """Begin an update in the form that the sums of gradients of tables have in this step."""
        parts: list[Apply] = []
        operands: list[Bundle | RowOperands] = []
        for part in op.parts:
            form, given = change_of(part, self.slots) if part.sums else (part, self.slots[part.operands])
            parts.append(form)
            operands.append(given)
        return self.task.update(ApplyAll(tuple(parts)), operands)

    def _source(self, kind: str, number: int, leaf: int) -> Array:
        """An array that the ids of a lookup are computed from."""
        if kind == "argument":
            return self.arguments[number]
        return leaf_of(self.batches[number], leaf)

    def _host_arrays(self, op: RunKernel) -> Arrays:
        arrays: list[Array] = []
        for kind, number in op.host:
            if kind == "batch":
                arrays.extend(self.batches[number].leaves())
            elif kind == "rows":
                arrays.append(self.rows[number].positions)
            elif kind == "joint":
                arrays.append(self.rows[number].joint_positions)
            else:
                arrays.append(self.keys[number] if kind == "key" else self.arguments[number])
        return tuple(arrays)


def _tells_nobody(_: Step) -> None:
    """Nothing is called at the end of a step that is over, and nothing is kept by it."""


class _Over:
    """What a task runtime has in the place of a step that is over: the two would keep each other until the collector comes by."""

    over = True

    def go(self, result: OperationResult = None) -> None:
        """A late event has no effect."""

    def fail(self, error: BaseException) -> None:
        """A late event has no effect."""


OVER = _Over()
