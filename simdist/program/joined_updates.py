"""Joined updates: assignments that follow each other, of different variables, are one update.

A metric adds to its total and its count, and a batch normalisation assigns two averages. Each update changes its group as a whole, so for
all weights of a model, which are one group, many updates took time in the square of their number. And a worker sends the next update to
the servers when they have confirmed the one before, though only changes of the same variable need to wait for each other.

Invariant: the values are those of the updates one by one, because no variable is changed twice, and nothing reads between them.

Not simulated: that what needs no order travels side by side also where it is of different rules, such as an assignment and an increment, or
in rounds (`Variable.assigned_with`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from simdist.program.operations import Operation, Program, Update

__all__ = ["with_joined_updates"]


def with_joined_updates(program: Program) -> Program:
    """The program, with one update for assignments (or increments) that follow each other."""
    joined: list[Operation] = []
    together, stored = list[Update](), set[int]()
    for op in program.operations:
        own = _stored(op) if isinstance(op, Update) else set[int]()
        if together and not (isinstance(op, Update) and _are_alike(together[-1], op) and not stored & own):
            joined.append(_joined(together))
            together, stored = [], set()
        if isinstance(op, Update):
            together.append(op)
            stored |= own
        else:
            joined.append(op)
    joined += [_joined(together)] if together else []
    return program if len(joined) == len(program.operations) else replace(program, operations=tuple(joined))


def _joined(updates: Sequence[Update]) -> Update:
    """One update for all of these."""
    if len(updates) == 1:
        return updates[0]
    variables, operands = (
        tuple(chain.from_iterable(parts)) for parts in zip(*((op.variables, op.operands) for op in updates), strict=True)
    )
    return Update(updates[0].rule, variables, operands)


def _are_alike(one: Update, other: Update) -> bool:
    """Whether two updates may be one, as far as their rule and the kinds of their variables say."""
    if not isinstance(other.rule, str) or one.rule != other.rule or one.row_reads or other.row_reads:
        return False
    kinds = {variable.assigned_with for variable in (*one.variables, *other.variables)}
    return len(kinds) == 1 and None not in kinds


def _stored(op: Update) -> set[int]:
    """The identities of an update's variables, and of those that are stored in a part of them or around them."""
    return {id(handle) for variable in op.variables for handle in (variable, *variable.overlapping())}
