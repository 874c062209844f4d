"""Running a linked program on a task: one operation after the other, through the seam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.program.values import Bundle
from simdist.runtime.base import TaskRuntime
from simdist.runtime.linked import ApplyAll, LinkedProgram, MakeKey, Meeting, ReadGroups, Run, TakeBatch

__all__ = ["run_step"]

NOTHING = Bundle((), ())


def run_step(linked: LinkedProgram, task: TaskRuntime, iterators: Sequence[Any], arguments: tuple[Any, ...]) -> Bundle:
    """Run one step of a program on a task.

    Args:
        linked: the program with its places.
        task: what it meets there.
        iterators: the iterator arguments of the call, in order.
        arguments: the array arguments of the call, leaf by leaf.

    Returns:
        The bundle of the results.
    """
    slots = [NOTHING] * linked.num_slots
    for slot, bundle in linked.constants:
        slots[slot] = bundle
    batches: list[Any] = []
    keys: list[Any] = []
    for op in linked.operations:
        if isinstance(op, Run):
            batch = None if op.batch is None else batches[op.batch]
            host = _host_arrays(op, batches, keys, arguments) if op.host else ()
            outputs = task.run(op, [slots[slot] for slot in op.slots], batch, host)
            for slot, bundle in zip(op.outputs, outputs, strict=True):
                slots[slot] = bundle
        elif isinstance(op, ReadGroups):
            for (_, slot, _), bundle in zip(op.groups, task.read(op), strict=True):
                slots[slot] = bundle
        elif isinstance(op, ApplyAll):
            task.apply(op, [slots[part.operands] for part in op.parts])
        elif isinstance(op, Meeting):
            slots[op.output] = task.meet(op, slots[op.operands])
        elif isinstance(op, TakeBatch):
            batches.append(task.next_batch(iterators[op.iterator]))
        elif isinstance(op, MakeKey):
            keys.append(task.random_key(op.salt))
        else:
            task.check(op, slots[op.slot])
    task.step_done()
    return slots[linked.result] if linked.result >= 0 else NOTHING


def _host_arrays(op: Run, batches: list[Any], keys: list[Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    arrays: list[Any] = []
    for kind, number in op.host:
        if kind == "batch":
            arrays.extend(batches[number].leaves())
        else:
            arrays.append(keys[number] if kind == "key" else arguments[number])
    return tuple(arrays)
