"""Linking of updates: what one update changes, group by group, with which operands and by which kernel.

Dense operands of a group go into one bundle. Gradients of rows stay apart, with the row read that says which rows they are; so do sums of
such gradients over replicas, for which a change has two forms (`simdist.runtime.row_sums`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from simdist.program.kernels import Kernel
from simdist.program.operations import Program, Register, Update
from simdist.program.values import Aval, BundleType, num_bytes
from simdist.runtime.linked import Apply, ApplyAll, OfRule, RowOperand, RowSum, Slot
from simdist.runtime.linking_kernels import KnownKernels
from simdist.runtime.updating import assigning, cells_by_owner, combination_of, is_by_rows, is_of_each
from simdist.variables.handles import variable_of
from simdist.variables.shard_range import ShardRange
from simdist.variables.state import Cell, Group, Owner
from simdist.variables.update_rule import UpdateRule, rule_of

__all__ = ["Piece", "UpdateLinker"]

Piece: TypeAlias = "tuple[Register, ShardRange | None]"
"""A register, or the part of it that belongs to a shard."""
Cells: TypeAlias = "list[tuple[int, Cell]]"
"""Cells of one group, with the numbers of their variables in the update."""


class Packing(Protocol):
    """What updates need of the linker of their program.

    Attributes:
        slot_avals: the types of the slots.
    """

    slot_avals: list[BundleType]

    def pack(self, pieces: list[Piece]) -> Slot:
        """The slot that holds exactly these pieces."""
        ...

    def no_row(self) -> Slot:
        """The slot that holds the number of a row that no table has."""
        ...

    def number(self) -> int:
        """The number of one more kernel."""
        ...


class UpdateLinker:
    """Links the updates of one program.

    Args:
        program: what was traced.
        replica: who runs it, by its local rank.
        sums: that are ids and rows, with the type of their rows.
        packing: the linker of all operations.
        kernels: of the replicas that were linked before.

    Attributes:
        slot_of_sum: where each of these sums is, once it is linked.
    """

    def __init__(self, program: Program, replica: int, sums: Mapping[Register, Aval], packing: Packing, kernels: KnownKernels) -> None:
        self.program = program
        self.kernels = kernels
        self.replica = replica
        self.sums = sums
        self.packing = packing
        self.slot_of_sum: dict[Register, Slot] = {}

    def pieces(self, op: Update) -> list[list[Piece]]:
        """What an update takes, bundle by bundle; sums are bundles already."""
        pieces = [self._dense(op, cells) for cells in cells_by_owner(op, self.replica).values() if cells]
        return pieces + [[(op.operands[number], None)] for number, rows in enumerate(op.row_reads) if rows is not None]

    def link(self, op: Update) -> ApplyAll:
        """An update with its groups and slots."""
        parts = cells_by_owner(op, self.replica).items()
        return ApplyAll(tuple([self._part(op, cells) if cells else self._count(_rule_of(op), owner) for owner, cells in parts]))

    def _dense(self, op: Update, cells: Cells) -> list[Piece]:
        return [(op.operands[n], variable_of(op.variables[n]).placement.range_of(cell)) for n, cell in cells if not self._is_apart(op, n)]

    def _is_apart(self, op: Update, number: int) -> bool:
        """Whether an operand is no part of the bundle of dense ones."""
        return is_by_rows(op, number) or op.operands[number] in self.sums

    def _count(self, rule: UpdateRule, owner: Owner) -> Apply:
        """What an owner does of whose cells none is changed."""
        group, slot = rule.counting_group(owner), self.packing.no_row()
        avals = self.packing.slot_avals[slot]
        kernel = self.kernels.get((rule, group, "count"), lambda: rule.counting_kernel(group))
        what = self.packing.number(), group.number, group.task, kernel, group.avals, avals, slot, 0, rule.combination
        return Apply(*what, of_rule=OfRule.of(rule, group))

    def _part(self, op: Update, cells: Cells) -> Apply:
        group, slot = cells[0][1].group, self.packing.pack(self._dense(op, cells))
        avals = self.packing.slot_avals[slot]
        dense = [cell.position for number, cell in cells if not self._is_apart(op, number)]
        by_rows = [(number, cell) for number, cell in cells if is_by_rows(op, number)]
        sums = [(number, cell) for number, cell in cells if op.operands[number] in self.sums]
        rows = tuple([self._row_operand(op, number, cell) for number, cell in by_rows])
        positions = (*dense, *(cell.position for _, cell in (*by_rows, *sums)))
        if rows:
            changed = [(cell.position, operand.rows) for (_, cell), operand in zip(by_rows, rows, strict=True)]
            rule = _rule_of(op)
            key = rule, group, tuple(dense), avals, tuple(changed)
            kernel = self.kernels.get(key, lambda: rule.row_kernel(group, dense, avals, changed))
        else:
            kernel = self._dense_kernel(op, group, positions, (*avals, *(op.variables[number].aval for number, _ in sums)))
        what = self.packing.number(), group.number, group.task, kernel, group.avals, avals, slot, num_bytes(avals), combination_of(op), rows
        of_rule = None if isinstance(op.rule, str) else OfRule.of(rule_of(op.rule), group)
        part = Apply(*what, positions, of_each=is_of_each(op), of_rule=of_rule)
        return self._with_sums(part, op, dense, sums) if sums else part

    def _dense_kernel(self, op: Update, group: Group, positions: tuple[int, ...], operands: BundleType) -> Kernel:
        if isinstance(op.rule, str):
            return assigning(op.rule, group.avals, positions, operands)
        rule = rule_of(op.rule)
        return self.kernels.get((rule, group, positions, operands), lambda: rule.kernel(group, positions, operands))

    def _with_sums(self, part: Apply, op: Update, dense: Sequence[int], sums: Cells) -> Apply:
        """A change by sums of gradients of tables, which are tables or ids and rows."""
        slots = [self.slot_of_sum[op.operands[number]] for number, _ in sums]
        tables = tuple([RowSum(slot, (op.variables[number].aval,)) for slot, (number, _) in zip(slots, sums, strict=True)])
        rows = tuple([RowSum(slot, self.packing.slot_avals[slot]) for slot in slots])
        changed = [(cell.position, self.sums[op.operands[number]]) for number, cell in sums]
        rule, group = _rule_of(op), sums[0][1].group
        key = "sums", rule, group, tuple(dense), part.given, tuple(changed)
        kernel = self.kernels.get(key, lambda: rule.row_sum_kernel(group, dense, part.given, changed))
        return replace(part, sums=tables, of_rows=replace(part, number=self.packing.number(), kernel=kernel, sums=rows))

    def _row_operand(self, op: Update, number: int, cell: Cell) -> RowOperand:
        """The gradient of rows that a cell is changed with."""
        register, read = op.operands[number], op.row_reads[number]
        assert read is not None
        first, stop = cell.rows or (0, cell.aval.shape[0])
        return RowOperand(read, self.packing.pack([(register, None)]), self.program.avals[register], first, stop)


def _rule_of(op: Update) -> UpdateRule:
    """The rule of an update that is no plain assignment."""
    assert not isinstance(op.rule, str)
    return rule_of(op.rule)
