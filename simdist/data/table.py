"""A table: the immutable columns that a dataset's elements are rows of.

A dataset made from arrays never copies them into batches by itself: it hands out row numbers, and the columns stay in
one place. One place for everybody: three hundred workers that each build the same arrays share one table, because a
table is known by the digest of its contents.

Invariants: columns never change; two tables with equal contents and structure, made by `Table.from_leaves`, are the
same object as long as one of them is alive.

Taught in lesson 08.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import ClassVar
from weakref import WeakValueDictionary

import numpy as np

from simdist.data.aligned import rows_of, rows_taken
from simdist.data.leaves import Array, Leaves, Scalar, Structure, frozen

__all__ = ["Signature", "Table", "digest"]

LeafSpec = tuple[tuple[int, ...], str]  # shape and dtype name of one leaf
Signature = tuple[Structure, tuple[LeafSpec, ...]]  # what a compiled program depends on


def digest(columns: Sequence[Array]) -> str:
    """32 hexadecimal digits over dtype, shape and bytes of all columns."""
    state = hashlib.blake2b(digest_size=16)
    for column in columns:
        state.update(f"{column.dtype.str}{column.dtype.name}{column.shape};".encode())
        state.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data if column.size else b"")
    return state.hexdigest()


class Table:
    """Columns of equal length, one per leaf of the element's structure.

    Use `Table.from_leaves`, which shares equal tables.

    Args:
        columns: one array of shape [n, ...] per leaf, for n rows.
        structure: how the leaves of one element are nested.
        key: the digest of the contents, where it is known.

    Example:
        >>> from simdist.data import Dataset
        >>> first = Dataset.from_tensor_slices([1, 2, 3]).table
        >>> first.num_rows, first is Dataset.from_tensor_slices([1, 2, 3]).table
        (3, True)
    """

    shared: ClassVar[WeakValueDictionary[tuple[str, Structure], Table]] = WeakValueDictionary()

    pending = False  # True while rows are still to be computed (see mapped.py)
    unvisited = False  # True while a visit of a row may compute it, or raise
    derived: dict[Hashable, Table]  # what pure maps made of this one, by function (see sharing.py)

    def __init__(self, columns: Leaves, structure: Structure, key: str | None = None) -> None:
        self._columns = columns
        self._structure: Structure | None = structure
        self._num_rows = len(columns[0])
        self._key = key
        self._signatures: dict[tuple[int, ...], Signature] = {}
        self.derived = {}

    @classmethod
    def from_leaves(cls, columns: Sequence[Array], structure: Structure) -> Table:
        """The table with these contents: an existing one where there is one, else a new one."""
        columns = tuple(frozen(column) for column in columns)
        key = digest(columns)
        table = Table.shared.get((key, structure))
        if table is None:
            table = Table.shared[key, structure] = Table(columns, structure, key)
        return table

    @property
    def columns(self) -> Leaves:
        """One read-only array per leaf; the first axis has `num_rows` entries."""
        return self._columns

    @property
    def structure(self) -> Structure:
        """How the leaves of one element are nested."""
        assert self._structure is not None
        return self._structure

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._num_rows

    @property
    def key(self) -> str:
        """Digest of the contents (32 hexadecimal digits), the same in every process; computed when first asked for."""
        if self._key is None:
            self._key = digest(self.columns)
        return self._key

    def row(self, index: int) -> tuple[Array | Scalar, ...]:
        """The leaves of one row, as a map function sees them: scalars where the leaf has no axes."""
        return tuple(column[index] for column in self._columns)

    def take(self, rows: Array) -> Leaves:
        """The leaves at `rows`: shape [*rows.shape, ...]."""
        if rows.ndim == 0:
            return tuple(np.asarray(column[int(rows)]) for column in self._columns)
        return tuple([rows_taken(column, rows) for column in self._columns])

    def read(self, rows: Array) -> Leaves:
        """As `take`, for those who only read: parts of the columns, where the rows follow each other."""
        if rows.ndim == 0:
            return self.take(rows)
        return tuple([rows_of(column, rows) for column in self._columns])

    def compute(self, rows: Array) -> None:
        """Make sure that these rows exist; raises what computing them raises."""

    def leaf_specs(self, rows: Array | None = None) -> tuple[LeafSpec, ...]:
        """Shape and dtype name of each leaf of one row; `rows` says which rows the caller is about to use."""
        return tuple((column.shape[1:], column.dtype.name) for column in self._columns)

    def found_specs(self) -> set[tuple[LeafSpec, ...]]:
        """How the rows look that are known and may differ; empty where all are alike."""
        return set()

    def signature(self, rows: Array) -> Signature:
        """Structure, shapes and dtypes of the element that these rows make; one object per shape of `rows`."""
        found = self._signatures.get(rows.shape)
        if found is None:
            specs = tuple((rows.shape + shape, name) for shape, name in self.leaf_specs(rows))
            found = self._signatures[rows.shape] = (self.structure, specs)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_rows} rows)"
