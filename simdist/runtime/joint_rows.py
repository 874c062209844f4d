"""Rows that the replicas of a worker read together: each row travels to the worker once, and each device gets its own.

Every replica knows which rows its part of the batch asks for. When all have come to a read, the worker asks servers for the *joint* rows,
each once. A replica gets its own of them, and the sum of the replicas' gradients is one of the joint rows, which the worker sends.

Invariant: replicas come to the same reads of rows, and to sums of their gradients, in the same order (`read_alike`). Those that do not read
whole tables.

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import jax

from simdist.caches import bounded
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import Operation, Program, ReadRows, Register, TracedCollective
from simdist.program.row_numbers import joint_count
from simdist.program.values import Aval
from simdist.runtime.linked import ApplyAll, LinkedCollective, LinkedOperation, LinkedProgram, ReadGroups, ReadWithRows, Slot

__all__ = ["fitted", "joint_reads", "own_rows", "read_alike"]


def fitted(programs: Sequence[Program]) -> list[Program]:
    """The programs of the replicas of a worker, with sums of rows that are as long as what all of them read together.

    Each was traced as if the others had as many ids as its replica.
    """
    if all(program is programs[0] for program in programs):
        return list(programs)
    counts: dict[int, list[int]] = {}
    for program in programs:
        for op in program.operations:
            if isinstance(op, ReadRows):
                counts.setdefault(op.number, []).append(program.avals[op.outputs[0]].shape[0])
    return [_with_sums(program, counts) for program in programs]


def _with_sums(program: Program, counts: dict[int, list[int]]) -> Program:
    tables = {op.number: op.variable for op in program.operations if isinstance(op, ReadRows)}
    operations, changed = list[Operation](), dict[Register, Aval]()
    for op in program.operations:
        if isinstance(op, TracedCollective) and (number := op.collective.row_read) is not None:
            (traced,) = op.collective.outputs
            total = Aval((joint_count(counts[number], tables[number].shape[0]), *traced.shape[1:]), traced.dtype)
            if traced != total:
                changed[op.outputs[0]] = total
                op = replace(op, collective=replace(op.collective, outputs=(total,)))
        operations.append(op)
    return replace(program, operations=tuple(operations), avals={**program.avals, **changed}) if changed else program


# -- what replicas do together -----------------------------------------------------------------------------------------


def read_alike(programs: Sequence[LinkedProgram]) -> bool:
    """Whether replicas can read rows together: they come to the same reads of rows, sums and updates, in the same order."""
    if not any(isinstance(op, ReadWithRows) for program in programs for op in program.operations):
        return True
    return len({_order(program) for program in dict.fromkeys(programs)}) == 1


def _order(program: LinkedProgram) -> tuple[Hashable, ...]:
    return tuple([found for op in program.operations if (found := _met(op)) is not None])


def _met(op: LinkedOperation) -> Hashable | None:
    """What an operation is to the other replicas; None where each comes to it by itself."""
    match op:
        case ReadWithRows():
            parts = tuple([(part.group, part.positions) for part in op.parts])
            tables = [(table.number, tuple([(shard.group, shard.position) for shard in table.shards])) for table in op.tables]
            return "rows", parts, tuple(tables)
        case LinkedCollective():
            return "collective", op.collective.row_read
        case ApplyAll() if not op.of_each:
            return "update", tuple([(part.group, tuple([operand.number for operand in part.rows])) for part in op.parts])
        case _:
            return None


def joint_reads(programs: Sequence[LinkedProgram]) -> tuple[ReadWithRows, ...]:
    """The reads of rows of the replicas, in order: each of the rows of all of them."""
    of_each = [[op for op in program.operations if isinstance(op, ReadWithRows)] for program in programs]
    return tuple([_joint(same) for same in zip(*of_each, strict=True)])


def _joint(reads: Sequence[ReadWithRows]) -> ReadWithRows:
    tables = []
    for same in zip(*[read.tables for read in reads], strict=True):
        count = joint_count([table.rows.shape[0] for table in same], same[0].ids.num_rows)
        tables.append(replace(same[0], rows=Aval((count, *same[0].rows.shape[1:]), same[0].rows.dtype)))
    return replace(reads[0], dense=_all_of([read.dense for read in reads]), tables=tuple(tables))


def _all_of(reads: Sequence[ReadGroups]) -> ReadGroups:
    """A read of all groups that some replicas read: one without a part of the batch counts nothing, and does not read its metrics."""
    groups: dict[int, tuple[int, Slot, int]] = {}
    cells: dict[int, tuple[int, ...]] = {}
    for read in reads:
        for (group, slot, size_bytes), positions in zip(read.groups, read.cells, strict=True):
            before = groups.get(group, (group, slot, 0))
            groups[group] = group, before[1], max(before[2], size_bytes)
            cells[group] = tuple(sorted({*cells.get(group, ()), *positions}))
    return ReadGroups(tuple(groups.values()), tuple(cells.values()))


@bounded("kernels that take the rows of a replica", size=64)
def own_rows(name: str, joint_rows: Aval, replica_rows: Aval) -> Kernel:
    """The kernel that takes the joint rows [m, ...] and the positions [k] of a replica's among them, and gives its rows [k, ...]."""

    def taken(rows: jax.Array, positions: jax.Array) -> list[jax.Array]:
        return [rows.at[positions].get(mode="clip")]

    return kernel_of(f"rows of {name}", taken, [joint_rows, Aval((replica_rows.shape[0],), "int32")])
