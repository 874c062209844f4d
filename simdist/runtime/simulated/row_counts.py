"""How many rows calls have moved, for each shard: noted call by call, added up now and then.

A call pays for one more tuple in a list; the sums are those of numpy, over many calls at once.
"""

from __future__ import annotations

import numpy as np

__all__ = ["RowCounts"]

TOGETHER = 1_024  # calls that are added up at once


class RowCounts:
    """The rows of each shard, in a fixed order.

    Attributes:
        calls: how many were noted.

    Example:
        >>> counts = RowCounts()
        >>> counts.add((2, 0))
        >>> counts.add((1, 3))
        >>> counts.totals()
        ([2, 1], [3, 3])
    """

    def __init__(self) -> None:
        self._calls: list[tuple[int, ...]] = []
        self._folded = 0
        self._asked: np.ndarray | None = None
        self._rows: np.ndarray | None = None

    @property
    def calls(self) -> int:
        return self._folded + len(self._calls)

    def add(self, counts: tuple[int, ...]) -> None:
        """Note a call: the rows that it moves of each shard, as many numbers each time."""
        self._calls.append(counts)
        if len(self._calls) >= TOGETHER:
            self._fold()

    def totals(self) -> tuple[list[int], list[int]]:
        """For each shard: in how many calls there was a row of it, and how many rows there were; both empty before the first call."""
        self._fold()
        if self._asked is None or self._rows is None:
            return [], []
        return self._asked.tolist(), self._rows.tolist()

    def _fold(self) -> None:
        if not self._calls:
            return
        counts = np.array(self._calls, np.int64)
        asked, rows = np.count_nonzero(counts, axis=0), counts.sum(0)
        self._asked = asked if self._asked is None else self._asked + asked
        self._rows = rows if self._rows is None else self._rows + rows
        self._folded += len(self._calls)
        self._calls.clear()
