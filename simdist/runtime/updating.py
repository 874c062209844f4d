"""The cells that an update changes: by owner and group, with the kernel of a plain assignment.

An optimizer brings rules of its own (`simdist.variables.optimizer`).
"""

from __future__ import annotations

import jax

from simdist.caches import bounded
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import Update
from simdist.program.values import BundleType
from simdist.variables.handles import variable_of
from simdist.variables.state import Cell, Layout, Owner, owner_of
from simdist.variables.update_rule import rule_of

__all__ = ["assigning", "cells_by_owner", "join_groups"]


def cells_by_owner(op: Update, replica: int) -> dict[Owner, list[tuple[int, Cell]]]:
    """The cells that an update by one replica changes, with the number of their variable; by task, replica-local ones apart."""
    cells: dict[Owner, list[tuple[int, Cell]]] = {}
    for number, variable in enumerate(op.variables):
        for cell in variable_of(variable).placement.changed_by(replica):
            cells.setdefault(owner_of(cell), []).append((number, cell))
    return cells


def join_groups(op: Update, replica: int, layout: Layout) -> None:
    """Make one group of the cells that an update changes together, for each owner."""
    for owner, cells in cells_by_owner(op, replica).items():
        own = [cell for _, cell in cells]
        if isinstance(op.rule, str):
            if len({id(cell.group) for cell in own}) > 1:
                layout.join(own)
        else:
            rule_of(op.rule).join(owner, op.variables, cells, layout)


@bounded("kernels of assignments", size=256)
def assigning(rule: str, state: BundleType, positions: tuple[int, ...], operands: BundleType) -> Kernel:
    """The kernel of a plain assignment or increment to some cells of a group.

    Args:
        rule: "assign" or "add".
        state, operands: the types of the group and of the operands.
        positions: of the cells in the group.
    """
    num_cells = len(state)

    def run(*arrays: jax.Array) -> list[jax.Array]:
        cells, given = list(arrays[:num_cells]), arrays[num_cells:]
        for position, operand in zip(positions, given, strict=True):
            cells[position] = operand if rule == "assign" else cells[position] + operand
        return cells

    return kernel_of(rule, run, [*state, *operands])
