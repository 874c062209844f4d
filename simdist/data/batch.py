"""One element of a dataset, as the engine receives it: rows of a table, or concrete arrays.

A batch of rows is a few bytes (which table, which row numbers) until its leaves are asked for. So a schedule of a
thousand workers can be written down, and shipped to one compiled loop, without copying a single example.

Invariant: `structure`, `signature` and `leaves()` agree, and never change.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from simdist.data.leaves import Array, Element, Leaves, Scalar, Structure, flatten, is_text, unflatten
from simdist.data.table import Signature, Table
from simdist.errors import InvalidArgumentError

__all__ = ["Batch", "stack"]


class Batch:
    """One element: `rows` of `table`, or `arrays` where `table` is None.

    Args:
        table: where the rows are, or None.
        rows: int32 row numbers, shape [b], or [] for an element that is one row; None for concrete arrays.
        arrays: the leaves of a concrete element.
        structure: how the leaves of a concrete element are nested.
        has_rows: for each leaf of a concrete element whether its first axis is that of the rows; None: all leaves have one axis of rows.

    Example:
        >>> batch = Batch.from_value((np.zeros((4, 2)), np.ones(4)))
        >>> [part.num_rows for part in batch.split([3, 1])]
        [3, 1]
    """

    global_rows: int | None = None  # it is no part of a batch that others have parts of

    __slots__ = ("_leaves", "_signature", "_structure", "arrays", "has_rows", "rows", "table")

    def __init__(
        self,
        table: Table | None,
        rows: Array | None,
        arrays: Leaves | None = None,
        structure: Structure | None = None,
        has_rows: tuple[bool, ...] | None = None,
    ) -> None:
        self.table = table
        self.rows = rows
        self.arrays = arrays
        self.has_rows = has_rows
        self._leaves = arrays
        self._structure = structure
        self._signature: Signature | None = None

    @classmethod
    def from_value(cls, value: Element, what: str = "an element") -> Batch:
        """A concrete batch from a nested value; the arrays are copied unless nobody can write to them."""
        arrays, structure = flatten(value, what)
        return cls(None, None, arrays, structure)

    @property
    def structure(self) -> Structure:
        """How the leaves are nested."""
        if self.table is not None:
            return self.table.structure
        assert self._structure is not None
        return self._structure

    @property
    def signature(self) -> Signature:
        """Hashable: the structure, and (shape, dtype name) per leaf."""
        if self._signature is None:
            if self.table is not None and self.rows is not None and (self.rows.ndim or not self.table.pending):
                self._signature = self.table.signature(self.rows)
            else:
                self._signature = (self.structure, tuple((leaf.shape, leaf.dtype.name) for leaf in self.leaves()))
        return self._signature

    def leaves(self) -> Leaves:
        """The arrays, one per leaf; gathered from the table when first asked for."""
        if self._leaves is None:
            assert self.table is not None and self.rows is not None
            self._leaves = self.table.take(self.rows)
        return self._leaves

    def again(self) -> Batch:
        """The same element for another reader, who may write to its arrays: rows are gathered anew, all else is read-only."""
        return self if self.table is None else Batch(self.table, self.rows)

    def value(self) -> Element:
        """The element as its user knows it: a nested structure of numpy arrays."""
        return unflatten(self.structure, self.leaves())

    def arguments(self) -> tuple[Array | Scalar, ...]:
        """The leaves as a map function sees them: scalars where a leaf has no axes."""
        return tuple([leaf if leaf.ndim else leaf[()] for leaf in self.leaves()])

    @property
    def is_batched(self) -> bool:
        """True where every leaf has a first axis, and all first axes are equally long."""
        if self.rows is not None and self.rows.ndim:
            return True
        sizes = {leaf.shape[:1] for leaf in self.leaves()}
        return len(sizes) == 1 and () not in sizes

    @property
    def num_rows(self) -> int:
        """Length of the first axis, of a leaf that has rows; 1 for an element without one."""
        if self.rows is not None and self.rows.ndim:
            return self.rows.size
        first = self.leaves()[0 if self.has_rows is None else self.has_rows.index(True)]
        return len(first) if first.ndim else 1

    @property
    def nbytes(self) -> int:
        """Bytes of all leaves together, whether or not they were gathered."""
        _, specs = self.signature
        if self._leaves is not None or any(is_text(name) for _, name in specs):
            return sum(leaf.nbytes for leaf in self.leaves())
        return sum(int(np.prod(shape)) * np.dtype(name).itemsize for shape, name in specs)

    def require_numeric(self) -> Batch:
        """This batch, if every leaf can be computed with.

        Raises:
            InvalidArgumentError: a leaf holds strings.
        """
        _, specs = self.signature
        for position, (shape, name) in enumerate(specs):
            if is_text(name):
                raise InvalidArgumentError(
                    f"component {position} of a batch holds strings (shape {shape}); expected numbers or booleans; "
                    "turn the strings into integers first: dataset.map(lambda ...: lookup(...))"
                )
        return self

    def require_batched(self) -> Batch:
        """This batch, if it has a first axis to share.

        Raises:
            InvalidArgumentError: its leaves have no common first axis.
        """
        if not self.is_batched:
            raise InvalidArgumentError(
                "an element without a common first axis cannot be split among replicas; "
                "expected a batched dataset; add .batch(global_batch_size)"
            )
        return self

    def part(self, start: int, end: int) -> Batch:
        """The rows from `start` up to `end` of a batch; rows stay rows, and a leaf without rows stays whole."""
        if self.rows is not None and self.rows.ndim:
            return Batch(self.table, self.rows[start:end])
        leaves = self.leaves()
        has_rows = self.has_rows or (True,) * len(leaves)
        parts = [leaf[start:end] if has else leaf for leaf, has in zip(leaves, has_rows, strict=True)]
        return Batch(None, None, tuple(parts), self.structure, self.has_rows)

    def with_rows_of(self, has_rows: Sequence[bool]) -> Batch:
        """This element, of which some leaves alone have rows.

        Args:
            has_rows: for each leaf, whether it does; at least one.

        Example:
            >>> batch = Batch.from_value((np.float32(3), np.zeros((4, 2)))).with_rows_of([False, True])
            >>> batch.num_rows, [leaf.shape for leaf in batch.part(0, 1).leaves()]
            (4, [(), (1, 2)])
        """
        return Batch(None, None, self.leaves(), self.structure, tuple(has_rows))

    def split(self, sizes: Sequence[int]) -> list[Batch]:
        """Consecutive parts of this batch, one per replica; rows stay rows.

        Args:
            sizes: rows of each part; zero is allowed, and together they make `num_rows`.

        Returns:
            One batch per size.

        Raises:
            InvalidArgumentError: its leaves have no common first axis, or the sizes do not add up.
        """
        self.require_batched()
        if sum(sizes) != self.num_rows or min(sizes, default=0) < 0:
            raise InvalidArgumentError(f"cannot split {self.num_rows} rows into parts of {list(sizes)}; expected sizes that add up to it")
        return [self.part(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def __repr__(self) -> str:
        if self.table is not None:
            return f"Batch({self.num_rows} rows of {self.table!r})"
        return f"Batch({', '.join(f'{leaf.dtype.name}{list(leaf.shape)}' for leaf in self.leaves())})"


def stack(items: Sequence[Batch]) -> Batch:
    """One batch of shape [b, ...] of b concrete elements of shape [...].

    Raises:
        InvalidArgumentError: the elements differ in structure, shape or kind of dtype.
    """
    first = items[0]
    for item in items:
        if item.structure != first.structure:
            raise InvalidArgumentError(f"cannot batch elements of different structures: {first.structure} and {item.structure}")
    columns = zip(*(item.leaves() for item in items), strict=True)
    return Batch(None, None, tuple(stack_leaf(column) for column in columns), first.structure)


def stack_leaf(leaves: Sequence[Array]) -> Array:
    """The b arrays of one component, shape [...], as one of shape [b, ...]; or an error that names what differs."""
    shapes = sorted({leaf.shape for leaf in leaves})
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"cannot batch elements of different shapes: {shapes[0]} and {shapes[1]}; pad or crop them in a map first"
        )
    names = sorted({leaf.dtype.name for leaf in leaves})
    if len(names) > 1 and not all(map(is_text, names)):
        raise InvalidArgumentError(f"cannot batch elements of different dtypes: {names[0]} and {names[1]}; return one dtype from every map")
    stacked = np.stack(leaves)
    stacked.flags.writeable = False
    return stacked
