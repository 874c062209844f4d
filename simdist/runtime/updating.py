"""The cells that an update changes: by owner and group, with the kernel of a plain assignment.

An optimizer brings rules of its own (`simdist.variables.optimizer`).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from simdist.caches import bounded
from simdist.program.arrays import Array, Arrays
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import Program, Update
from simdist.program.values import Bundle, BundleType
from simdist.variables.aggregation import VariableAggregation, is_sum_of_replicas
from simdist.variables.handles import variable_of
from simdist.variables.layout import Layout
from simdist.variables.shard_range import ShardRange
from simdist.variables.state import Cell, Owner, owner_of
from simdist.variables.update_rule import Combination, rule_of

__all__ = ["Assignment", "assigning", "cells_by_owner", "combination_of", "is_by_rows", "is_of_each", "piece_of", "join_groups", "prepare"]

# Arrays of a group from which on they are computed before one is assigned.
WIDE = 8


def cells_by_owner(op: Update, replica: int) -> dict[Owner, list[tuple[int, Cell]]]:
    """The cells that an update by one replica changes, with the number of their variable; by task, replica-local ones apart.

    An owner that counts updates of which none of its cells is changed has no cells here.
    """
    cells: dict[Owner, list[tuple[int, Cell]]] = {}
    for number, variable in enumerate(op.variables):
        for cell in variable_of(variable).placement.changed_by(replica):
            cells.setdefault(owner_of(cell), []).append((number, cell))
    for owner in () if isinstance(op.rule, str) else rule_of(op.rule).counting_owners(replica):
        cells.setdefault(owner, [])
    return cells


def is_by_rows(op: Update, number: int) -> bool:
    """Whether the operand for a variable is a gradient of rows."""
    return bool(op.row_reads) and op.row_reads[number] is not None


def is_of_each(op: Update) -> bool:
    """Whether each replica adds something of its own to what is the sum over the replicas."""
    owns = [variable_of(variable) for variable in op.variables]
    return op.rule == "add" and all(own.is_served and is_sum_of_replicas(own) for own in owns)


def combination_of(op: Update) -> Combination:
    """What becomes of an update that counts together with those of other workers."""
    if op.rule == "add":
        return "sum"
    if op.rule != "assign":
        assert not isinstance(op.rule, str)
        return rule_of(op.rule).combination
    averaged = all(variable_of(variable).aggregation is VariableAggregation.MEAN for variable in op.variables)
    return "mean" if averaged else "last"


def prepare(program: Program, layout: Layout, replica: int = 0) -> None:
    """Join the groups that the program's updates ask for."""
    for op in program.operations:
        if isinstance(op, Update):
            join_groups(op, replica, layout)


def join_groups(op: Update, replica: int, layout: Layout) -> None:
    """Make one group of the cells that an update changes together, for each owner."""
    for owner, cells in cells_by_owner(op, replica).items():
        own = [cell for _, cell in cells]
        if isinstance(op.rule, str):
            if len({id(cell.group) for cell in own}) > 1:
                layout.join(own)
        else:
            rule_of(op.rule).join(owner, op.variables, cells, layout)


def piece_of(array: jax.Array, part: ShardRange | None) -> jax.Array:
    """The part of an operand that belongs to a shard; None: all of it."""
    return array if part is None else part.of(array)


@dataclass(frozen=True)
class Assignment:
    """A change of one cell of some groups of one type, from outside of every step.

    Args:
        rule: "assign" or "add".
        state: the type of the groups.
        position: of the cell in them.
    """

    rule: str
    state: BundleType
    position: int

    @property
    def is_wide(self) -> bool:
        """Whether the groups have so many arrays that to compile the kernel takes longer than to know them.

        Each cell of a group has a kernel of its own, which takes and gives all its arrays: for all cells of a deep model it took minutes.
        """
        return len(self.state) >= WIDE

    @property
    def kernel(self) -> Kernel:
        """It, as a kernel of a group's arrays and the operand."""
        return assigning(self.rule, self.state, (self.position,), (self.state[self.position],))

    def applied(self, arrays: Arrays, operand: Array) -> Bundle:
        """The next version of a group whose arrays are known; its numbers are those of the kernel."""
        given = jnp.asarray(operand, self.state[self.position].dtype)
        new = given if self.rule == "assign" else jnp.asarray(arrays[self.position]) + given
        return Bundle(self.state, (*arrays[: self.position], new, *arrays[self.position + 1 :]))


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
