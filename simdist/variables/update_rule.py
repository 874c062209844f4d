"""What a rule of an optimizer does to the groups of cells that hold variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, TypeAlias

from simdist.program.kernels import Kernel
from simdist.program.operations import RuleHandle, VariableHandle
from simdist.program.values import Aval
from simdist.variables.layout import Layout
from simdist.variables.state import Cell, Group, Owner

__all__ = ["Combination", "UpdateRule", "rule_of"]

Combination: TypeAlias = Literal["mean", "sum", "last", "each"]
"""What becomes of the updates of several workers that count together: gradients are averaged, increments added up; of assignments the last
one counts; changes of single elements are made one after the other."""


class UpdateRule(RuleHandle, ABC):
    """How an `Update` changes groups of cells.

    Attributes:
        combination: what becomes of the updates of several workers that count together.
    """

    combination: Combination = "mean"

    @abstractmethod
    def join(self, owner: Owner, variables: Sequence[VariableHandle], cells: list[tuple[int, Cell]], layout: Layout) -> None:
        """Make one group of the cells of one owner, and of what the rule keeps beside them.

        Args:
            owner: who changes the cells.
            variables: that an update changes.
            cells: of these, those of the owner, with the numbers of their variables.
            layout: of the strategy.
        """

    @abstractmethod
    def kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval]) -> Kernel:
        """The kernel that takes the group's arrays and the operands, and gives the group's new arrays.

        Args:
            group: of the variables' cells, and of what the rule keeps.
            positions: in the group, of the cells that the operands belong to.
            operand_avals: shapes and dtypes of the operands.
        """

    def counting_owners(self, replica: int) -> Sequence[Owner]:
        """Who counts each update by one replica, also one that changes none of their cells; none where the rule keeps no state.

        Args:
            replica: its local rank.
        """
        return ()

    def counting_group(self, owner: Owner) -> Group:
        """The group in which an owner counts the updates that change none of its cells."""
        raise NotImplementedError

    def counting_kernel(self, group: Group) -> Kernel:
        """The kernel that counts an update: it takes the group's arrays and the number of a row that no table has [1]."""
        raise NotImplementedError

    def row_kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval], rows: Sequence[tuple[int, Aval]]) -> Kernel:
        """As `kernel`, of a kernel that also takes gradients of rows: after the operands the rows [k, ...] of each, then their ids [k].

        Args:
            group: of the variables' cells, and of what the rule keeps.
            positions: in the group, of the cells that the operands belong to.
            operand_avals: shapes and dtypes of the operands.
            rows: for each gradient of rows the position of its cell, and what it looks like.
        """
        raise NotImplementedError

    def changes_rows_alone(self, group: Group, rows: Sequence[tuple[int, Aval]]) -> bool:
        """Whether an update by gradients of these rows may leave all other rows of their tables as they are.

        Args:
            group: of the variables' cells, and of what the rule keeps.
            rows: for each gradient of rows the position of its cell, and what it looks like.
        """
        return False

    def row_sum_kernel(
        self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval], rows: Sequence[tuple[int, Aval]]
    ) -> Kernel:
        """As `row_kernel`, of a kernel that takes ids and rows of each gradient beside each other: the ids [k], then the rows [k, ...]."""
        raise NotImplementedError


def rule_of(handle: RuleHandle) -> UpdateRule:
    """The rule that a program knows as a handle."""
    assert isinstance(handle, UpdateRule)
    return handle
