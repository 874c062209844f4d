"""Counted reads: reads of a sum over the replicas of a worker, to which these have added before in the same step.

Each replica adds to such a variable (`Apply.of_each`), as a metric does, without the others. When it reads the variable afterwards, the
sum needs what the others have added. So the replicas come to a counted read together, and all that they have added is kept before it.

Invariant: a read of which no replica uses the value, or to whose variables none has added, is no counted read: nobody waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simdist.program.operations import Program, Read, Reference, Register, Update, registers_taken
from simdist.runtime.linked import LinkedProgram, ReadGroups, ReadWithRows
from simdist.runtime.updating import is_of_each

__all__ = ["CountedReads", "counted_reads", "counted_registers", "dense_read"]

CountedReads = frozenset[ReadGroups]
"""Counted reads of all replicas of a worker; of a read of rows, the read of groups beside it."""


def counted_registers(program: Program) -> frozenset[Register]:
    """Where counted reads put their values, by the additions of the replica that has this program."""
    if not any(isinstance(op, Update) and is_of_each(op) for op in program.operations):
        return frozenset()
    used = {register for op in program.operations for register in registers_taken(op)}
    found, added = set[Register](), set[Reference]()
    for op in program.operations:
        if isinstance(op, Update):
            # With any other update, what was added before is kept.
            added = added | {variable.ref() for variable in op.variables} if is_of_each(op) else set()
        elif isinstance(op, Read) and op.output in used and op.variable.ref() in added:
            found.add(op.output)
    return frozenset(found)


def counted_reads(programs: Sequence[LinkedProgram]) -> CountedReads:
    """The counted reads of the replicas of a worker.

    A replica without rows adds nothing; where it reads a group for the n-th time, it comes to what is a counted read of the others.
    """
    reads = {program: _numbered(program) for program in programs}
    counted = {key for found in reads.values() for read, keys in found.items() for key in keys if key[0] in read.counted}
    return frozenset([read for found in reads.values() for read, keys in found.items() if counted.intersection(keys)])


def _numbered(program: LinkedProgram) -> dict[ReadGroups, list[tuple[int, int]]]:
    """The reads of a program, each with its groups and how often these were read before."""
    before, found = Counter[int](), dict[ReadGroups, list[tuple[int, int]]]()
    for op in program.operations:
        read = dense_read(op)
        if read is not None:
            found[read] = [(group, before[group]) for group in read.numbers]
            before.update(read.numbers)
    return found


def dense_read(op: object) -> ReadGroups | None:
    """The read of groups in an operation; None where there is none."""
    if isinstance(op, ReadWithRows):
        return op.dense
    return op if isinstance(op, ReadGroups) else None
