"""A digest that grows with its log: what was recorded so far has a digest at any moment, at the price of the last few rows.

Rows are hashed in the order in which they were recorded, when they leave the list of pending ones. Every
`ROWS_BETWEEN_MARKS` rows the digest so far is kept as a *mark*, so that two logs can be compared by bisection over
their marks.

Invariants: the digest depends on the rows alone, and neither on when they were folded nor on the codes that a log gives
to its texts: each text has the number of its first row.

Source: Merkle and Damgard's construction of a hash over blocks (1989), which SHA-256 follows: it can be continued.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

__all__ = ["ROWS_BETWEEN_MARKS", "RollingDigest"]

ROWS_BETWEEN_MARKS = 4096


class RollingDigest:
    """The digest of rows of a code and some numbers.

    Args:
        text_of: the text that a code stands for.
        numbers: how many float64 a row has.

    Attributes:
        marks: the digest after each `ROWS_BETWEEN_MARKS` rows.
        rows: how many rows have been hashed.

    Example:
        >>> first, second = RollingDigest(["a", "b"].__getitem__, 1), RollingDigest(["b", "a"].__getitem__, 1)
        >>> first.extend(np.array([0, 1]), np.array([0.5, 1.5]))
        >>> second.extend(np.array([1]), np.array([0.5]))
        >>> second.extend(np.array([0]), np.array([1.5]))
        >>> first.digest() == second.digest()
        True
    """

    def __init__(self, text_of: Callable[[int], str], numbers: int) -> None:
        self.text_of = text_of
        self.marks: list[bytes] = []
        self.rows = 0
        self._row = np.dtype([("code", "<u4"), ("numbers", "<f8", (numbers,))])
        self._numbers_of = np.full(16, -1, np.int64)  # by code, in the order of the first rows
        self._numbered: dict[str, int] = {}
        self._texts, self._data = hashlib.sha256(), hashlib.sha256()

    def extend(self, codes: np.ndarray, *numbers: np.ndarray) -> None:
        """Hash n rows: int codes of shape (n,), and the numbers as float64 of shape (n,) each."""
        first = 0
        while first < len(codes):
            last = min(len(codes), first + ROWS_BETWEEN_MARKS - self.rows % ROWS_BETWEEN_MARKS)
            self._piece(codes[first:last], [column[first:last] for column in numbers])
            first = last
            if self.rows % ROWS_BETWEEN_MARKS == 0:
                self.marks.append(self.digest())

    def _piece(self, codes: np.ndarray, numbers: list[np.ndarray]) -> None:
        rows = np.empty(len(codes), self._row)
        rows["code"] = self._renumbered(codes)
        for index, column in enumerate(numbers):
            rows["numbers"][:, index] = column
        self._data.update(rows.tobytes())
        self.rows += len(codes)

    def _renumbered(self, codes: np.ndarray) -> np.ndarray:
        largest = int(codes.max())
        if largest >= len(self._numbers_of):
            more = np.full(2 * largest + 16 - len(self._numbers_of), -1, np.int64)
            self._numbers_of = np.concatenate([self._numbers_of, more])
        found = self._numbers_of[codes]
        if found.min() < 0:
            new, where = np.unique(codes[found < 0], return_index=True)
            for code in new[np.argsort(where)].tolist():
                self._numbers_of[code] = self._number(self.text_of(code))
            found = self._numbers_of[codes]
        return found

    def _number(self, text: str) -> int:
        number = self._numbered.get(text)
        if number is None:
            number = self._numbered[text] = len(self._numbered)
            raw = text.encode()
            # The length in front keeps two texts from being read as two others.
            self._texts.update(len(raw).to_bytes(8, "little") + raw)
        return number

    def digest(self) -> bytes:
        """The digest of all rows so far: 32 bytes."""
        return hashlib.sha256(self._texts.digest() + self._data.digest()).digest()

    def common_marks(self, other: RollingDigest) -> int:
        """How many rows from the beginning are surely equal in both, as a multiple of `ROWS_BETWEEN_MARKS`."""
        length = min(len(self.marks), len(other.marks))
        differs = bisect_left(range(length), True, key=lambda index: self.marks[index] != other.marks[index])
        return differs * ROWS_BETWEEN_MARKS
