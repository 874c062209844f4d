"""How often each row of a table was asked for by steps, and changed by them: noted call by call, added up many calls at once.

A call pays for one more array in a list. A table pays eight bytes for each of its rows, in pages that the operating system gives when
a row of theirs is used for the first time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simdist.program.arrays import HostArray
from simdist.variables.state import Cell

__all__ = ["RowTally", "RowUses", "TableUses"]

TOGETHER = 1 << 16  # row numbers that are added up at once


class RowTally:
    """How often each row of a table was in a call.

    Args:
        num_rows: of the table, n.

    Example:
        >>> tally = RowTally(4)
        >>> tally.add(np.array([1, 3, 4]))  # 4 fills up
        >>> tally.add(np.array([3, 4, 4]))
        >>> tally.totals().tolist()
        [0, 1, 0, 2]
    """

    def __init__(self, num_rows: int) -> None:
        self._counts = np.zeros(num_rows + 1, np.int32)
        self._noted: list[HostArray] = []
        self._left = TOGETHER

    def add(self, rows: HostArray) -> None:
        """Note a call: its rows, each once, and n where that fills them up."""
        self._noted.append(rows)
        self._left -= rows.size
        if self._left <= 0:
            self._fold()

    def totals(self) -> HostArray:
        """The calls of each row [n]."""
        self._fold()
        return self._counts[:-1]

    def _fold(self) -> None:
        if self._noted:
            np.add.at(self._counts, np.concatenate(self._noted).astype(np.intp), np.int32(1))
        self._noted.clear()
        self._left = TOGETHER


class RowUses:
    """The calls of each row of one table, all tasks together.

    Attributes:
        reads: that asked for the row.
        updates: that brought a gradient of it.
    """

    def __init__(self, num_rows: int) -> None:
        self.reads = RowTally(num_rows)
        self.updates = RowTally(num_rows)


class TableUses:
    """The uses of the rows of all tables of a world, by the cells that are their shards."""

    def __init__(self) -> None:
        self._by_cell: dict[Cell, RowUses] = {}

    def of_table(self, cells: Sequence[Cell], num_rows: int) -> RowUses:
        """The uses of the table with these shards."""
        known = self._by_cell.get(cells[0]) or RowUses(num_rows)
        for cell in cells:
            self._by_cell[cell] = known
        return known

    def of_cell(self, cell: Cell) -> RowUses:
        """The uses of the table that has this shard, rows of which were read before."""
        return self._by_cell[cell]

    def of_shard(self, cell: Cell) -> tuple[HostArray, HostArray] | None:
        """The reads and the updates of each row of a shard; None where no step has looked up rows of its table."""
        known = self._by_cell.get(cell)
        if known is None:
            return None
        first, stop = cell.rows or (0, cell.aval.shape[0])
        return known.reads.totals()[first:stop], known.updates.totals()[first:stop]
