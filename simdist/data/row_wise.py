"""Functions of rows that can be applied to many rows at once: lookup tables.

A map function is called once for each row. Where it calls functions that say what they give for a whole column, and does nothing
else with the values but pick, compare and add them, it can be called once with whole columns instead (row_blocks.py).

A record notes which of these functions ran, and in which state: a mapped table whose rows came from two vocabularies would be wrong.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import TypeAlias, TypeVar

from simdist.data.leaves import Array
from simdist.errors import FailedPreconditionError
from simdist.process_state import TaskLocal

__all__ = ["NotByColumns", "Record", "RowWise", "recorded"]

T = TypeVar("T")


class NotByColumns(Exception):
    """This cannot be done with whole columns; the function has to be called row by row."""


class RowWise(ABC):
    """A function whose result for a row depends on that row, and on a state that changes seldom."""

    @abstractmethod
    def of_rows(self, rows: Array) -> tuple[Array, Array | None]:
        """The results for n rows.

        Args:
            rows: of shape [n, ...].

        Returns:
            An array of shape [n, ...], and the rows for which a call would raise (bool, shape [n]), or None where there are none.

        Raises:
            NotByColumns: the results are no column, or depend on more than their row.
        """

    @property
    @abstractmethod
    def state(self) -> Hashable:
        """Equal for functions that give the same results."""

    def note_call(self) -> None:
        """Enter this function into the records that are open."""
        for record in _open_records.get():
            if record.setdefault(self, self.state) != self.state:
                raise FailedPreconditionError(
                    f"{self!r} has changed since rows of a mapped dataset were computed with it. Set vocabularies before the dataset is "
                    "used, or make the dataset again: call .map(...) once more."
                )


Record: TypeAlias = dict[RowWise, Hashable]
"""The state of each function when it was first called."""

_open_records: TaskLocal[list[Record]] = TaskLocal(list)


def recorded(record: Record, call: Callable[[], T]) -> T:
    """The result of a call, during which row-wise functions are entered into a record."""
    records = _open_records.get()
    records.append(record)
    try:
        return call()
    finally:
        records.pop()
