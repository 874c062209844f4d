"""Running a linked program on a task: one operation after the other, through the seam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.program.values import Bundle
from simdist.runtime.base import TaskRuntime
from simdist.runtime.linked import ApplyAll, CheckFinite, LinkedProgram, MakeKey, ReadGroups, Run, TakeBatch

__all__ = ["run_step"]


def run_step(linked: LinkedProgram, task: TaskRuntime, iterators: Sequence[Any], arguments: Bundle | None) -> Bundle:
    """Run one step of a program on a task.

    Args:
        linked: the program with its places.
        task: what it meets there.
        iterators: the iterator arguments of the call, in order.
        arguments: the array arguments of the call, if any.

    Returns:
        The bundle of the results.
    """
    slots: list[Bundle | None] = [None] * linked.num_slots
    slots[linked.arguments] = arguments or Bundle((), ())
    for slot, bundle in linked.constants:
        slots[slot] = bundle
    batches: list[Any] = []
    keys: list[Any] = []
    for op in linked.operations:
        match op:
            case TakeBatch():
                batches.append(task.next_batch(iterators[op.iterator]))
            case ReadGroups():
                for (_, slot, _), bundle in zip(op.groups, task.read(op), strict=True):
                    slots[slot] = bundle
            case MakeKey():
                keys.append(task.random_key(op.salt))
            case Run():
                batch = None if op.batch is None else batches[op.batch]
                host = tuple(leaf for number in op.spread for leaf in batches[number].leaves()) + tuple(keys[number] for number in op.keys)
                outputs = task.run(op, tuple(_filled(slots[slot]) for slot in op.slots), batch, host)
                for (slot, _), bundle in zip(op.outputs, outputs, strict=True):
                    slots[slot] = bundle
            case ApplyAll():
                task.apply(op, [_filled(slots[part.operands]) for part in op.parts])
            case CheckFinite():
                task.check(op, _filled(slots[op.slot]))
    task.step_done()
    if linked.result < 0 or slots[linked.result] is None:
        return Bundle((), ())
    return _filled(slots[linked.result])


def _filled(bundle: Bundle | None) -> Bundle:
    assert bundle is not None
    return bundle
