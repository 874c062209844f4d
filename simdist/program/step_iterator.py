"""What a step takes its batches from: an iterator whose batches can be seen before they are taken.

A step is traced for the shapes of its next batches, so an iterator lets them be peeked at; which rows they are, and how
they came there, is the business of the input pipelines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["BatchSignature", "ColumnTable", "StepBatch", "StepIterator", "TimedIterator", "leaf_of"]

Column = np.ndarray[Any, Any]
LeafSpec = tuple[tuple[int, ...], str]  # shape and dtype name of one leaf
BatchSignature = tuple[Hashable, tuple[LeafSpec, ...]] | tuple[Hashable, tuple[LeafSpec, ...], int | None]
"""Structure, leaves, and perhaps the rows of the global batch: what a program is traced for."""


class ColumnTable(Protocol):
    """The columns that batches of rows are rows of, one array of shape [n, ...] for each leaf of a batch."""

    @property
    def columns(self) -> tuple[Column, ...]: ...
    @property
    def key(self) -> str: ...
    @property
    def pending(self) -> bool: ...
    def read(self, rows: Column) -> tuple[Column, ...]:
        """The leaves at some rows, to which nobody may write: shape [*rows.shape, ...]."""
        ...


class StepBatch(Protocol):
    """One batch of b rows, as a step takes it: row numbers of a table (shape [b]), or arrays of shape [b, ...].

    Attributes:
        global_rows: rows of the global batch that this is a replica's part of; None where it is not known, or is no part.
    """

    @property
    def table(self) -> ColumnTable | None: ...
    @property
    def rows(self) -> Column | None: ...
    @property
    def structure(self) -> Hashable: ...
    @property
    def signature(self) -> BatchSignature: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def global_rows(self) -> int | None: ...
    def leaves(self) -> Sequence[Column]: ...


def leaf_of(batch: StepBatch, number: int) -> Column:
    """One leaf of a batch, without the others."""
    if batch.table is None or batch.rows is None:
        return batch.leaves()[number]
    return batch.table.columns[number][batch.rows]


class StepIterator(Protocol):
    """An iterator argument of a step, at the place where the step runs."""

    def next_batch(self) -> StepBatch:
        """Take the next batch.

        Raises:
            StopIteration: there is none left.
        """
        ...

    def peek(self, i: int = 0, /) -> StepBatch:
        """The batch that the next call but `i` of `next_batch` will give; nothing is taken.

        Raises:
            StopIteration: there are not so many left.
        """
        ...

    def next_is(self, signature: BatchSignature, /) -> bool:
        """Whether the next batch is there already, and has this signature; runs no code of the pipeline."""
        ...


class TimedIterator(ABC):
    """An iterator of a step whose batches take virtual time to be made."""

    @abstractmethod
    def ready_s(self, now_s: float) -> float:
        """When the next batch, wanted now, is there: `now_s`, or later."""
