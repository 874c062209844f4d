"""A column of numbers that grows: appending is cheap, and what was handed out stays as it was.

Invariant: an array that `view` returned never changes; when the column outgrows its memory it moves to a larger one and
leaves the old one to those who hold it.
"""

from __future__ import annotations

from array import array
from typing import Any, SupportsFloat

import numpy as np

from simdist.errors import InvalidArgumentError

__all__ = ["GrowingColumn", "numbers_of"]

FIRST_ROWS = 64


class GrowingColumn:
    """Numbers of one type, row by row.

    Args:
        dtype: the type of the numbers.

    Example:
        >>> column = GrowingColumn(np.float64)
        >>> column.extend(np.array([1.0, 2.0]))
        >>> kept = column.view()
        >>> column.extend(np.array([3.0]))
        >>> kept.tolist(), column.view().tolist(), len(column)
        ([1.0, 2.0], [1.0, 2.0, 3.0], 3)
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self._memory: np.ndarray = np.empty(FIRST_ROWS, dtype)
        self._length = 0

    def extend(self, values: np.ndarray) -> None:
        """Append values."""
        length = self._length + len(values)
        if length > len(self._memory):
            larger = np.empty(max(length, len(self._memory) * 3 // 2), self._memory.dtype)
            larger[: self._length] = self._memory[: self._length]
            self._memory = larger
        self._memory[self._length : length] = values
        self._length = length

    def view(self) -> np.ndarray:
        """All numbers so far, to be read only: an array of shape (n,)."""
        view = self._memory[: self._length]
        view.flags.writeable = False
        return view

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> float:
        return self._memory[row].item()


def numbers_of(values: list[Any], what: str) -> np.ndarray:
    """Recorded values as float64 of shape (n,).

    Raises:
        InvalidArgumentError: one is not a number; `what` says in the message what they are.
    """
    try:
        return np.frombuffer(array("d", values), np.float64)
    except TypeError:
        wrong = next((value for value in values if not isinstance(value, SupportsFloat)), None)
        raise InvalidArgumentError(f"{what} must be numbers; got {wrong!r} of type {type(wrong).__name__}: record a float.") from None
