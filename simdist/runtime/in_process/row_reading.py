"""Rows of tables without a clock: each shard gives its own, and they are put side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simdist.program.arrays import Array, HostArray
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.runtime.linked import GroupPart, RowShard, TableRows
from simdist.runtime.linked_rows import RowOperands

__all__ = ["flat", "part_of", "read_table"]


def read_table(table: TableRows, numbers: RowNumbers, rows_of: Callable[[RowShard, HostArray], Array]) -> Bundle:
    """The rows of a table, as a bundle of one array [k, ...].

    Args:
        table: what is read.
        numbers: which rows.
        rows_of: gives rows of a shard, by their numbers in it.
    """
    rows = np.zeros(table.rows.shape, np.dtype(table.rows.dtype) if table.rows.dtype != "bfloat16" else table.rows.dtype)
    known = numbers.unique[: numbers.count]
    for shard in table.shards:
        low, high = np.searchsorted(known, (shard.first, shard.stop))
        if high > low:
            rows[low:high] = np.asarray(rows_of(shard, known[low:high] - shard.first))
    return Bundle((table.rows,), (rows,))


def part_of(part: GroupPart, group: Bundle) -> Bundle:
    """Some cells of a group."""
    arrays = group.arrays or ()
    return Bundle.of([arrays[position] for position in part.positions])


def flat(operands: Bundle | RowOperands) -> Bundle:
    """What a kernel takes beside a group, as one bundle."""
    return operands.flat() if isinstance(operands, RowOperands) else operands
