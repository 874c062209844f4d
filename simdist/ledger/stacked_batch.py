"""The batches of several replicas as one: rows [lanes, b] of one table, or leaves [lanes, b, ...]."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from simdist.program.step_iterator import BatchSignature, ColumnTable, StepBatch

__all__ = ["can_be_stacked", "stacked"]


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
        return [np.stack(leaves) for leaves in zip(*(batch.leaves() for batch in self.batches), strict=True)]
