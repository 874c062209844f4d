"""The table that a pure function makes of another table, row by row, when a row is first needed.

A pipeline with a map is thus still a stream of row numbers, and only the values behind them are new. Rows are computed
as elements visit them (a notebook that looks at five elements calls the function on those five and the probed ones);
asking for `columns` computes the rest.

A function that calls lookup tables is first tried on whole columns (row_blocks.py), all rows at once; rows for which that does not
work are computed one by one.

Invariants: each row is computed once; a row whose computation raises does so whenever an element visits it, and leaves
zeros in `columns`, where no element can see them; all rows are computed with the same lookup tables.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simdist.data.batch import stack_leaf
from simdist.data.leaves import Array, ElementFunction, Leaves, Scalar, Structure, dtype_of
from simdist.data.purity import Answer, ask, name_of
from simdist.data.reach import UNKNOWN, Reach
from simdist.data.row_blocks import agreed_columns
from simdist.data.row_wise import Record, recorded
from simdist.data.table import LeafSpec, Table
from simdist.errors import InvalidArgumentError

__all__ = ["MappedTable"]


class MappedTable(Table):
    """Rows of `source`, each mapped by `fn`.

    Args:
        source: the table that is mapped.
        fn: a pure function of one row.
        known: answers that are known already, by row.
        used: the lookup tables that gave them.
        reach: what the function reaches, as it was when it gave them.
    """

    pending = True
    unvisited = True

    def __init__(self, source: Table, fn: ElementFunction, known: dict[int, Answer], used: Record, reach: Reach) -> None:
        self._source = source
        self._fn = fn
        self._rows: list[Leaves | None] = [None] * source.num_rows
        self._left = source.num_rows
        self._columns = ()
        self._structure = None
        self._num_rows = source.num_rows
        self._key = None
        self._signatures = {}
        self.derived = {}
        self._used = used
        self._reach = reach
        self._unchecked = False  # True after a row was computed, until it is certain with what
        self._tried = False
        self._failing: set[int] = set()  # rows that have zeros in the columns
        for row, answer in known.items():
            if not isinstance(answer, Exception):
                self.keep(row, answer)

    @property
    def structure(self) -> Structure:
        if self._structure is None:
            self.any_row()
        assert self._structure is not None
        return self._structure

    @property
    def columns(self) -> Leaves:
        if self.pending:
            self.complete()
        return self._columns

    def row(self, index: int) -> tuple[Array | Scalar, ...]:
        return tuple([leaf if leaf.ndim else leaf[()] for leaf in self.checked((index,))[0]])

    def take(self, rows: Array) -> Leaves:
        if not self.pending:
            self.require(rows)
            return super().take(rows)
        if rows.ndim == 0:
            return self.checked((int(rows),))[0]
        if rows.ndim > 1:
            return tuple([leaf.reshape(*rows.shape, *leaf.shape[1:]) for leaf in self.take(rows.reshape(-1))])
        if not rows.size:
            specs = self.leaf_specs()
            return tuple(np.empty((0, *shape), dtype_of(name)) for shape, name in specs)
        return tuple(stack_leaf(column) for column in zip(*self.checked(rows.tolist()), strict=True))

    def read(self, rows: Array) -> Leaves:
        if self.pending or not rows.size:
            return self.take(rows)
        self.require(rows)
        return super().read(rows)

    def compute(self, rows: Array) -> None:
        if not self.pending:
            self.require(rows)
            return
        self.checked(rows.reshape(-1).tolist())
        if not self._left:
            self.settle()

    def leaf_specs(self, rows: Array | None = None) -> tuple[LeafSpec, ...]:
        if not self.pending:
            return super().leaf_specs()
        leaves = self.any_row() if rows is None or not rows.size else self.checked((int(rows.reshape(-1)[0]),))[0]
        return tuple((leaf.shape, leaf.dtype.name) for leaf in leaves)

    def found_specs(self) -> set[tuple[LeafSpec, ...]]:
        return {tuple((leaf.shape, leaf.dtype.name) for leaf in leaves) for leaves in self._rows if leaves is not None}

    def checked(self, rows: Sequence[int]) -> list[Leaves]:
        """The leaves of some rows, after which it is certain, or not, with what they were computed."""
        try:
            return [self.leaves_of(row) for row in rows]
        finally:
            self.check()

    def check(self) -> None:
        """Forget that all is as it was, where that is not certain any more."""
        if self._unchecked and not self._reach.is_unchanged:
            self._reach = UNKNOWN
        self._unchecked = False

    @property
    def is_certain(self) -> bool:
        """Whether all rows so far were computed with what the function reached at first."""
        return not self._unchecked and self._reach.key is not None

    def ask_row(self, row: int) -> Answer:
        """What the function answers on one row, which is remembered; or what it raises."""
        try:
            return self.checked((row,))[0], self.structure
        except Exception as error:
            return error

    def leaves_of(self, index: int) -> Leaves:
        """The leaves of one row, computed if need be; raises what the function raises."""
        if self.pending and self._rows[index] is None and self._used and not self._tried:
            self.try_columns()
        if not self.pending:
            if index in self._failing:
                raise self.failure(index)
            return tuple(np.asarray(column[index]) for column in self._columns)
        leaves = self._rows[index]
        if leaves is not None:
            return leaves
        answer = self.answer(index)
        if isinstance(answer, Exception):
            raise answer
        return self.keep(index, answer)

    @property
    def is_current(self) -> bool:
        """Whether the lookup tables that its rows were computed with have not changed since."""
        return all(lookup.state == state for lookup, state in self._used.items())

    def answer(self, index: int) -> Answer:
        """What the function answers on one row, with the lookup tables as they were."""
        self._unchecked = True
        return recorded(self._used, lambda: ask(self._fn, self._source, index))

    def require(self, rows: Array) -> None:
        """Raise what computing one of these rows raises."""
        if self._failing:
            for index in rows.reshape(-1).tolist():
                if index in self._failing:
                    raise self.failure(index)

    def failure(self, index: int) -> Exception:
        """What the function raises on a row that it cannot compute."""
        answer = self.answer(index)
        self.check()
        if isinstance(answer, Exception):
            return answer
        return InvalidArgumentError(
            f"{name_of(self._fn)} raised for row {index}, and not when it was called again; expected a function that gives the same "
            "answer twice; pass pure=False to map"
        )

    def try_columns(self) -> None:
        """Compute all rows in one call of the function, where that gives what single calls give."""
        self._tried = True
        if self._source.unvisited:
            return  # a column of the source would compute rows that no element visits
        self._unchecked = True
        found = recorded(self._used, lambda: agreed_columns(self._fn, self._source, self.known_answer))
        if found is None:
            return
        self.settle_columns(found.columns, found.structure)
        self._failing = set(np.flatnonzero(found.failed).tolist())
        self.unvisited = bool(self._failing)

    def known_answer(self, row: int) -> Answer:
        """What the function answers on a row, which is remembered."""
        leaves = self._rows[row]
        if leaves is not None:
            return leaves, self.structure
        answer = self.answer(row)
        if not isinstance(answer, Exception):
            self.keep(row, answer)
        return answer

    def keep(self, index: int, answer: tuple[Leaves, Structure]) -> Leaves:
        """Remember a row, which must look like the others."""
        leaves, structure = answer
        if self._structure is None:
            self._structure = structure
        elif self._structure != structure:
            raise InvalidArgumentError(
                f"{name_of(self._fn)} returned {structure} for row {index} and {self._structure} before; "
                "expected one structure; return the same nesting from every branch"
            )
        self._rows[index] = leaves
        self._left -= 1
        return leaves

    def any_row(self) -> Leaves:
        """The leaves of the first row that can be computed."""
        failure: Exception | None = None
        for index in range(self.num_rows):
            try:
                return self.checked((index,))[0]
            except Exception as error:
                failure = failure or error
        raise failure or InvalidArgumentError("a mapped dataset without elements has no structure; give the dataset at least one row")

    def complete(self) -> None:
        """Compute every row; one that fails becomes zeros."""
        blank = tuple(np.zeros_like(leaf) for leaf in self.any_row())
        for index, leaves in enumerate(self._rows):
            if leaves is None:
                answer = self.answer(index)
                if isinstance(answer, Exception):
                    self._rows[index] = blank
                    self._failing.add(index)
                else:
                    self.keep(index, answer)
        self.check()
        self.settle()
        if self.pending:
            raise InvalidArgumentError(
                f"{name_of(self._fn)} returns rows of different shapes or dtypes, which are not one table; "
                "pad or crop them, and convert them to one dtype, inside the function"
            )

    def settle(self) -> None:
        """Turn the rows into columns, unless their shapes differ: then they stay rows."""
        rows = [leaves for leaves in self._rows if leaves is not None]
        try:
            columns = tuple(stack_leaf(column) for column in zip(*rows, strict=True))
        except InvalidArgumentError:
            self._left = -1  # ragged: never try again on the way
            return
        self.settle_columns(columns, self.structure)

    def settle_columns(self, columns: Leaves, structure: Structure) -> None:
        """Have these columns from now on."""
        self._structure = structure
        self._shared = Table.from_leaves(columns, structure)
        self._columns, self._key = self._shared.columns, self._shared.key
        self.pending = False
        self.unvisited = bool(self._failing)
        self._rows = []
