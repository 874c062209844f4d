"""A map function tried on whole columns: one call instead of one for each row.

The function gets stand-ins, each for all rows of one leaf. A stand-in can be looked up (row_wise.py), indexed behind its row axis,
compared, computed with, stacked and selected from. Every other use, whatever code of the user makes of the error, ends the trial, and
the function is called row by row as before.

Invariants:

- A stand-in gives no value away, so no branch of the function depends on one: all rows take the same course.
- Only operations are allowed whose bits do not depend on how many numbers they are applied to. Sums and exponentials are not.
- A result is used only where it equals what the function returns on the probed rows, to the last bit.

Taught in lesson 08.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from simdist.data.leaves import Array, ElementFunction, Leaves, Structure, as_leaf, frozen, tree_flatten
from simdist.data.purity import Answer, call_on, is_equal_row, probed_rows
from simdist.data.row_wise import NotByColumns, RowWise
from simdist.data.table import Table

__all__ = ["RowBlock", "Trial", "TriedColumns", "agreed_columns", "tried_columns"]

TEXT = "US"
NUMBERS = "biuf"
COMPARISONS = frozenset({np.equal, np.not_equal})
EXACT = COMPARISONS | {
    *(np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.negative, np.positive, np.absolute),
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.minimum, np.maximum),
    *(np.logical_and, np.logical_or, np.logical_xor, np.logical_not),
    *(np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert),
}


@dataclass(frozen=True)
class TriedColumns:
    """What a function returned for all rows at once.

    Attributes:
        columns: an array of shape [n, ...] per leaf.
        structure: how the leaves are nested.
        failed: the rows for which it raises: bool of shape [n].
    """

    columns: Leaves
    structure: Structure
    failed: Array


class Trial:
    """One call of a function with stand-ins.

    Args:
        num_rows: of the table.

    Attributes:
        broken: whether the function has done what stand-ins cannot.
        failed: the rows for which a lookup raises.
    """

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows
        self.broken = False
        self.failed = np.zeros(num_rows, bool)

    def stop(self, what: str) -> NoReturn:
        """End the trial, even where the function catches the error."""
        self.broken = True
        raise NotByColumns(what)

    def column(self, leaf: object) -> Array:
        """A leaf of the result as a column."""
        if type(leaf) is RowBlock:
            return frozen(_trimmed(as_leaf(leaf.rows_in(self), "a mapped component")))
        constant = as_leaf(leaf, "a mapped component")  # pyright: ignore[reportArgumentType]
        return frozen(np.broadcast_to(constant, (self.num_rows, *constant.shape)))


def _trimmed(column: Array) -> Array:
    """Text as wide as its longest string, as a stack of single strings would be."""
    return np.array(column.tolist(), dtype=column.dtype.kind) if column.dtype.kind in TEXT and column.size else column


class RowBlock(NDArrayOperatorsMixin):
    """Stands for the values of all rows of one leaf; a map function handles it as it would one row's value.

    Args:
        trial: that it belongs to.
        rows: an array of shape [n, ...].
    """

    __slots__ = ("_rows", "_trial")
    _rows: Array
    _trial: Trial

    def __init__(self, trial: Trial, rows: Array) -> None:
        object.__setattr__(self, "_trial", trial)
        object.__setattr__(self, "_rows", rows)

    def rows_in(self, trial: Trial) -> Array:
        """The values of all rows, for the trial that this belongs to."""
        if self._trial is not trial:
            trial.stop("a stand-in of another trial")
        return self._rows

    def given_to(self, function: RowWise) -> RowBlock:
        """A row-wise function of each row."""
        try:
            values, failed = function.of_rows(self._rows)
        except Exception:
            self._trial.broken = True
            raise
        if failed is not None:
            self._trial.failed |= failed
        return RowBlock(self._trial, values)

    # -- what a row's value can be asked --------------------------------------------------------------------------

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return np.ndarray if self._rows.ndim > 1 else self._rows.dtype.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self._rows.shape[1:]

    @property
    def ndim(self) -> int:
        return self._rows.ndim - 1

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        if self._rows.dtype.kind in TEXT and not self.ndim:
            self._trial.stop("the length of each row's string")
        return self._rows.dtype

    def __len__(self) -> int:
        if not self.ndim:
            self._trial.stop("len")
        return self.shape[0]

    def __getitem__(self, key: Any) -> RowBlock:
        keys = key if isinstance(key, tuple) else (key,)
        if not self.ndim or not all(item is None or item is Ellipsis or isinstance(item, (int, np.integer, slice)) for item in keys):
            self._trial.stop("indexing by anything but integers and slices")
        if any(isinstance(item, (bool, np.bool_)) for item in keys):
            self._trial.stop("indexing by a boolean")
        try:
            return RowBlock(self._trial, self._rows[(slice(None), *keys)])
        except (IndexError, TypeError) as error:
            self._trial.stop(str(error))

    def astype(self, dtype: Any) -> RowBlock:
        wanted = np.dtype(dtype)
        if wanted.kind not in NUMBERS or self._rows.dtype.kind not in NUMBERS:
            self._trial.stop("astype of anything but numbers")
        return RowBlock(self._trial, self._rows.astype(wanted))

    # -- what numpy can do with it --------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> RowBlock:
        if method != "__call__" or kwargs or ufunc not in EXACT:
            self._trial.stop(f"{ufunc.__name__}")
        operands = self._aligned(inputs)
        if ufunc not in COMPARISONS and any(operand.dtype.kind not in NUMBERS for operand in operands if isinstance(operand, np.ndarray)):
            self._trial.stop(f"{ufunc.__name__} of strings")
        return self._computed(lambda: ufunc(*operands))

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> RowBlock:
        if function is np.where and len(args) == 3 and not kwargs:
            operands = self._aligned(args)
            return self._computed(lambda: np.where(*operands))
        if function not in (np.stack, np.concatenate) or len(args) not in (1, 2) or set(kwargs) - {"axis"}:
            self._trial.stop(getattr(function, "__name__", "a function of numpy"))
        return self._joined(function, args[0], args[1] if len(args) == 2 else kwargs.get("axis", 0))

    def _joined(self, function: Callable[..., Array], parts: Sequence[Any], axis: Any) -> RowBlock:
        try:
            columns = [part.rows_in(self._trial) if type(part) is RowBlock else self._column_of(part) for part in parts]
            axis = operator.index(axis)
        except TypeError:
            self._trial.stop("stacking of something else")
        return self._computed(lambda: function(columns, axis=axis if axis < 0 else axis + 1))

    def _column_of(self, constant: Any) -> Array:
        array = np.asarray(constant)
        return np.broadcast_to(array, (self._trial.num_rows, *array.shape))

    def _aligned(self, operands: Sequence[Any]) -> list[Any]:
        """Operands whose axes behind the row axis are broadcast as those of single rows would be."""
        blocks = [operand for operand in operands if type(operand) is RowBlock]
        others = [operand for operand in operands if issubclass(type(operand), np.ndarray)]
        if not all(type(x) is RowBlock or isinstance(x, (np.ndarray, np.generic, bool, int, float, str)) for x in operands):
            self._trial.stop("an operand that is neither array nor number")
        most = max([block.ndim for block in blocks] + [other.ndim for other in others])
        return [_deepened(x.rows_in(self._trial), most) if type(x) is RowBlock else x for x in operands]

    def _computed(self, compute: Callable[[], Array]) -> RowBlock:
        try:
            found = compute()
        except Exception as error:
            self._trial.stop(str(error))
        if not isinstance(found, np.ndarray) or found.shape[:1] != (self._trial.num_rows,):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._trial.stop("a result that is no column")
        return RowBlock(self._trial, found)

    # -- all else ends the trial ----------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> NoReturn:
        self._trial.broken = True
        raise AttributeError(name)


def _deepened(rows: Array, ndim: int) -> Array:
    """Rows with as many axes as others have; new ones come right behind the row axis."""
    return rows.reshape(len(rows), *[1] * (ndim + 1 - rows.ndim), *rows.shape[1:])


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(block: RowBlock, *_: object, **__: object) -> NoReturn:
        trial: Trial = object.__getattribute__(block, "_trial")
        trial.broken = True
        raise TypeError(f"{name} of a stand-in for many rows")

    return refuse


for _name in (
    *("bool", "int", "float", "complex", "index", "round", "trunc", "floor", "ceil", "iter", "reversed", "contains", "hash"),
    *("str", "repr", "format", "bytes", "array", "setitem", "setattr", "delattr", "copy", "deepcopy", "reduce_ex"),
):
    setattr(RowBlock, f"__{_name}__", _refused(_name))


def tried_columns(fn: ElementFunction, table: Table) -> TriedColumns | None:
    """What a function returns when it is called once with stand-ins for all rows of a table; None where that cannot be done."""
    trial = Trial(table.num_rows)
    try:
        stand_ins: list[Any] = [RowBlock(trial, column) for column in table.columns]
        result = call_on(fn, table.structure, stand_ins)
        leaves, structure = tree_flatten(result)
        columns = tuple(trial.column(leaf) for leaf in leaves)
    except Exception:
        return None
    return None if trial.broken or not columns else TriedColumns(columns, structure, trial.failed)


def agreed_columns(fn: ElementFunction, table: Table, answer: Callable[[int], Answer]) -> TriedColumns | None:
    """As `tried_columns`, where the probed rows are what the function answers on each of them alone."""
    found = tried_columns(fn, table)
    return found if found is not None and all(_agrees(found, row, answer(row)) for row in probed_rows(table)) else None


def _agrees(found: TriedColumns, row: int, answer: Answer) -> bool:
    if isinstance(answer, Exception) or found.failed[row]:
        return isinstance(answer, Exception) and bool(found.failed[row])
    return is_equal_row(answer, (tuple(np.asarray(column[row]) for column in found.columns), found.structure))
