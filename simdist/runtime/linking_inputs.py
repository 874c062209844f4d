"""Linking of inputs: where each register of a program comes from, and what it takes to read variables, batches, arguments and keys.

Several reads that follow each other are one operation, which asks for each group once. Of a group that has a table, of which rows are read,
it asks for the cells that the step needs, and not for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from simdist.program.operations import Argument, Next, Program, RandomKey, Read, ReadRows, Register
from simdist.program.values import Aval, BundleType, num_bytes
from simdist.runtime.counted_reads import counted_registers
from simdist.runtime.linked import GroupPart, MakeKey, ReadGroups, ReadWithRows, RowShard, Slot, TableRows, TakeBatch
from simdist.variables.handles import variable_of
from simdist.variables.state import Cell

__all__ = ["InputLinker", "Sources"]

Source: TypeAlias = "tuple[str, int, int]"
"""Where an array is: in a "slot", a "batch", an "argument", a "key", or row numbers ("rows", "joint"); in which; and its position there."""


class Sources:
    """Where the registers of a program are, as far as it is linked.

    Attributes:
        of: for each register the pieces that make it up.
        axes: along which the pieces of a register are joined; where it is not 0.
        slot_avals: the types of the slots.
        batch_avals, argument_avals, position_avals: of the batches, the arguments, and the positions of rows, by the number of their read.
    """

    def __init__(self) -> None:
        self.of: dict[Register, list[Source]] = {}
        self.axes: dict[Register, int] = {}
        self.slot_avals: list[BundleType] = []
        self.batch_avals: list[BundleType] = []
        self.argument_avals: list[Aval] = []
        self.position_avals: dict[int, Aval] = {}

    def slot(self, avals: BundleType) -> Slot:
        """A new slot for a bundle of this type."""
        self.slot_avals.append(avals)
        return len(self.slot_avals) - 1

    def avals(self, kind: str, number: int) -> Sequence[Aval]:
        """The types of the arrays that one source has."""
        match kind:
            case "slot":
                return self.slot_avals[number]
            case "batch":
                return self.batch_avals[number]
            case "argument":
                return (self.argument_avals[number],)
            case "rows" | "joint":
                return (self.position_avals[number],)
            case _:
                return (Aval((2,), "uint32"),)


class InputLinker:
    """Links what one program reads and takes.

    Args:
        program: what was traced.
        replica: who runs it, by its local rank.
        sources: where its registers are; those of the inputs are added.
    """

    def __init__(self, program: Program, replica: int, sources: Sources) -> None:
        self.program = program
        self.replica = replica
        self.sources = sources
        self.counted = counted_registers(program)
        self.num_keys = 0

    def read(self, reads: Sequence[Read | ReadRows]) -> ReadGroups | ReadWithRows:
        """Reads that follow each other are one operation."""
        wanted: dict[int, tuple[int, Slot, int]] = {}
        used: dict[int, list[int]] = {}
        counted: dict[int, None] = {}
        tables = [self._rows(op) for op in reads if isinstance(op, ReadRows)]
        with_tables = {shard.group for table in tables for shard in table.shards}
        parts = self._parts([op for op in reads if isinstance(op, Read)], with_tables)
        for op in reads:
            if isinstance(op, ReadRows):
                continue
            placement = variable_of(op.variable).placement
            cells = placement.read_by(self.replica)
            if placement.axis:
                self.sources.axes[op.output] = placement.axis
            pieces: list[Source] = []
            for cell in cells:
                group = cell.group.number
                if group in parts:
                    pieces.append(("slot", parts[group].output, parts[group].positions.index(cell.position)))
                    continue
                if group not in wanted:
                    wanted[group] = (group, self.sources.slot(cell.group.avals), 0)
                _, slot, size = wanted[group]
                wanted[group] = (group, slot, size + cell.aval.size_bytes)
                used.setdefault(group, []).append(cell.position)
                counted.update({group: None} if op.output in self.counted else {})
                pieces.append(("slot", slot, cell.position))
            self.sources.of[op.output] = pieces
        dense = ReadGroups(tuple(wanted.values()), tuple(map(tuple, used.values())), tuple(counted))
        return ReadWithRows(dense, tuple(parts.values()), tuple(tables)) if tables else dense

    def batch(self, op: Next) -> TakeBatch:
        """A batch of an iterator."""
        number = len(self.sources.batch_avals)
        for leaf, register in enumerate(op.outputs):
            self.sources.of[register] = [("batch", number, leaf)]
        self.sources.batch_avals.append(tuple(self.program.avals[register] for register in op.outputs))
        return TakeBatch(op.iterator, number)

    def argument(self, op: Argument) -> None:
        """The arrays that the step is called with: they are there when it begins."""
        self.sources.argument_avals = [self.program.avals[register] for register in op.outputs]
        for position, register in enumerate(op.outputs):
            self.sources.of[register] = [("argument", position, 0)]

    def key(self, op: RandomKey) -> MakeKey:
        """The key of one seed generator."""
        number, self.num_keys = self.num_keys, self.num_keys + 1
        self.sources.of[op.output] = [("key", number, 0)]
        return MakeKey(op.salt, number)

    def _parts(self, reads: Sequence[Read], groups: set[int]) -> dict[int, GroupPart]:
        """What reads need of groups that have tables, of which rows are read."""
        cells: dict[int, dict[int, Cell]] = {}
        for op in reads:
            for cell in variable_of(op.variable).placement.read_by(self.replica):
                if cell.group.number in groups:
                    cells.setdefault(cell.group.number, {})[cell.position] = cell
        found: dict[int, GroupPart] = {}
        for group, wanted in cells.items():
            avals, state = tuple([cell.aval for cell in wanted.values()]), next(iter(wanted.values())).group.avals
            found[group] = GroupPart(group, tuple(wanted), num_bytes(avals), state, self.sources.slot(avals))
        return found

    def _rows(self, op: ReadRows) -> TableRows:
        rows, positions, *joint = op.outputs
        aval, shards = self.program.avals[rows], list[RowShard]()
        for cell in variable_of(op.variable).placement.read_by(self.replica):
            first, stop = cell.rows or (0, cell.aval.shape[0])
            shards.append(RowShard(cell.group.number, cell.position, first, stop, cell.group.avals))
        slot = self.sources.slot((aval,))
        self.sources.of[rows] = [("slot", slot, 0)]
        self.sources.of[positions] = [("rows", op.number, 0)]
        self.sources.of.update((register, [("joint", op.number, 0)]) for register in joint)
        self.sources.position_avals[op.number] = self.program.avals[positions]
        sources = tuple([self.sources.of[register][0] for register in op.sources])
        return TableRows(op.number, op.ids, sources, tuple(shards), aval, slot)
