"""The placement of a variable: its cells, how they make up its value, and which of them a replica reads and changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from simdist.program.arrays import Array, HostArray
from simdist.program.operations import VariableHandle
from simdist.variables.shard_range import ShardRange
from simdist.variables.state import Cell
from simdist.variables.variable_store import VariableStore

__all__ = ["Placement"]

V = TypeVar("V", bound=VariableHandle)


class Placement(Generic[V]):
    """The cells of one variable.

    Attributes:
        cells: its shards in their order; or its copies.
        spread: "shards" (s cells, the value is their concatenation), "copies" (all equal), or "replicas" (r cells, replica-local values).
        combine: for replicas, what a read from outside gives: "sum", "mean", "first", "none" (an error) or "worker" (that
            of the worker whose closure reads).
        store: the store of the strategy, which reads and assigns.
        separate: gives each replica a copy of its own, which may differ from the others.
        across: gives the combined value where other drivers have replica-local values, too.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        store: VariableStore[V],
        spread: str = "shards",
        combine: str = "first",
        separate: Callable[[V], None] = lambda variable: None,
        across: Callable[[V], Array] | None = None,
        ranges: Sequence[ShardRange] | None = None,
    ) -> None:
        self.cells = list(cells)
        self._ranges = ranges
        self.store = store
        self.spread = spread
        self.combine = combine
        self.separate = separate
        self.across = across

    @property
    def ranges(self) -> Sequence[ShardRange | None]:
        """For each cell, which part of the whole variable it is; None for a cell that holds all of it."""
        # The only cell of a placement holds all of its value, also where it is a shard of another variable.
        return [cell.range if len(self.cells) > 1 else None for cell in self.cells] if self._ranges is None else self._ranges

    @property
    def axis(self) -> int:
        """The axis along which the shards are joined."""
        part = self.ranges[0]
        return 0 if part is None else part.axis

    @property
    def is_mean_of_replicas(self) -> bool:
        """Whether each replica has a value of its own, and the variable is their mean."""
        return self.spread == "replicas" and self.combine == "mean"

    def range_of(self, cell: Cell) -> ShardRange | None:
        """Which part of the whole variable a cell of it is; None: all."""
        return self.ranges[self.cells.index(cell)]

    def part_of(self, cell: Cell, whole: HostArray) -> HostArray:
        """The part of a whole value that belongs into a cell."""
        part = self.range_of(cell)
        return whole if part is None else part.of(whole)

    def read_by(self, replica: int) -> list[Cell]:
        """The cells that one replica reads, by its local rank."""
        if self.spread == "shards":
            return self.cells
        return [self.cells[replica if self.spread == "replicas" else 0]]

    def changed_by(self, replica: int) -> list[Cell]:
        """The cells that one replica changes: its own, and those that are not replica-local."""
        return [cell for cell in self.cells if cell.replica in (None, replica)]
