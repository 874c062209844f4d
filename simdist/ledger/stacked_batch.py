"""The batches of several replicas as one: rows [lanes, b] of one table, or leaves [lanes, b, ...]."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from simdist.program.arrays import Array
from simdist.program.step_iterator import BatchSignature, ColumnTable, StepBatch

__all__ = ["can_be_stacked", "stacked", "stacked_arrays"]


def can_be_stacked(batches: Sequence[StepBatch | None]) -> bool:
    """Whether all of them, or none, are there, with rows of one table and equally many of them."""
    first = batches[0]
    if first is None:
        return all(batch is None for batch in batches)
    shape = None if first.rows is None else first.rows.shape
    return all(
        batch is not None and batch.table is first.table and (None if batch.rows is None else batch.rows.shape) == shape
        for batch in batches
    )


def stacked(batches: Sequence[StepBatch | None]) -> StepBatch | None:
    """The batches as one, of those that can be stacked; None where there are none."""
    given = [batch for batch in batches if batch is not None]
    return StackedBatch(given) if given else None


class StackedBatch(StepBatch):
    """One batch for each lane.

    Args:
        batches: of the lanes, in order.
    """

    def __init__(self, batches: Sequence[StepBatch]) -> None:
        self.batches = batches
        first = batches[0]
        self._table = first.table
        self._rows = None if first.table is None else np.stack([np.asarray(batch.rows) for batch in batches])

    @property
    def table(self) -> ColumnTable | None:
        return self._table

    @property
    def rows(self) -> np.ndarray | None:
        return self._rows

    @property
    def structure(self) -> Hashable:
        return self.batches[0].structure

    @property
    def signature(self) -> BatchSignature:
        return self.batches[0].signature

    @property
    def num_rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def global_rows(self) -> int | None:
        return self.batches[0].global_rows

    def leaves(self) -> Sequence[np.ndarray]:
        return [stacked_arrays(leaves) for leaves in zip(*(batch.leaves() for batch in self.batches), strict=True)]


def stacked_arrays(arrays: Sequence[Array]) -> np.ndarray:
    """Arrays of one shape as one [lanes, ...]; not copied where they lie one after the other in the memory of one array.

    Example:
        >>> rows = np.arange(6)
        >>> stack = stacked_arrays([rows[:2], rows[2:4]])
        >>> stack.tolist(), np.shares_memory(stack, rows), stacked_arrays([rows[:2], rows[4:]]).tolist()
        ([[0, 1], [2, 3]], True, [[0, 1], [4, 5]])
    """
    parts = [array for array in arrays if isinstance(array, np.ndarray)]
    whole = parts[0].base if len(parts) == len(arrays) else None
    if not isinstance(whole, np.ndarray) or not _follow_each_other(parts, whole):
        return np.stack(arrays)
    first, begins = parts[0], _address(parts[0])
    start = (begins - _address(whole)) // first.itemsize
    return whole.reshape(-1)[start : start + len(arrays) * first.size].reshape(len(arrays), *first.shape)


def _follow_each_other(parts: Sequence[np.ndarray], whole: np.ndarray) -> bool:
    """Whether parts of one array are alike, and lie in it one after the other."""
    first, begins = parts[0], _address(parts[0])
    return whole.flags.c_contiguous and all(
        part.base is whole
        and (part.shape, part.dtype) == (first.shape, whole.dtype)
        and part.flags.c_contiguous
        and _address(part) == begins + number * first.nbytes
        for number, part in enumerate(parts)
    )


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
