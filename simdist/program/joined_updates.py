"""Joined updates: assignments that follow each other, of different variables, are one update.

A metric adds to its total and its count, and a batch normalisation assigns two averages. Each update changes its group as a whole, so for
all weights of a model, which are one group, many updates took time in the square of their number.

Invariant: the values are those of the updates one by one, because no variable is changed twice, and nothing reads between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simdist.program.operations import Operation, Program, Update, VariableHandle

__all__ = ["with_joined_updates"]


def with_joined_updates(program: Program) -> Program:
    """The program, with one update for assignments (or increments) that follow each other."""
    joined: list[Operation] = []
    for op in program.operations:
        before = joined[-1] if joined else None
        if isinstance(op, Update) and isinstance(before, Update) and _may_join(before, op):
            joined[-1] = Update(op.rule, (*before.variables, *op.variables), (*before.operands, *op.operands))
        else:
            joined.append(op)
    return program if len(joined) == len(program.operations) else replace(program, operations=tuple(joined))


def _may_join(before: Update, op: Update) -> bool:
    if not isinstance(op.rule, str) or op.rule != before.rule or before.row_reads or op.row_reads:
        return False
    kinds = {variable.assigned_with for variable in (*before.variables, *op.variables)}
    return len(kinds) == 1 and None not in kinds and not _stored(before.variables) & _stored(op.variables)


def _stored(variables: Sequence[VariableHandle]) -> set[int]:
    """The identities of variables, and of those that are stored in a part of them or around them."""
    return {id(handle) for variable in variables for handle in (variable, *variable.overlapping())}
