"""All counter samples of a log as columns: the length of a queue, step by step.

Invariants: as those of spans (span_log.py): nothing depends on when samples were folded, and what was handed out never
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from simdist.trace.facts import canonical_json
from simdist.trace.growing import GrowingColumn, numbers_of
from simdist.trace.records import Counter
from simdist.trace.rolling import RollingDigest

__all__ = ["CounterLog"]

COUNTER_FIELDS = 4
FULL = 4096 * COUNTER_FIELDS  # pending fields at which the log is folded


class CounterLog(Sequence[Counter]):
    """All counter samples in order of time.

    Attributes:
        pending: fields of samples that are not folded yet: lane, name, time_s, value, and so on.
    """

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self._keys: list[tuple[str, str]] = []  # lane and name of each counter
        self._codes: dict[tuple[str, str], int] = {}
        self._code = GrowingColumn(np.int32)
        self._time_s, self._value = GrowingColumn(np.float64), GrowingColumn(np.float64)
        self._last: dict[int, float] = {}  # the last value of each counter
        self._rolling: RollingDigest | None = self._new_digest()

    def add(self, lane: str, name: str, time_s: float, value: float) -> None:
        """Append a sample."""
        self.pending += (lane, name, time_s, value)
        if len(self.pending) >= FULL:
            self.fold()

    def fold(self) -> None:
        """Move pending samples into the columns.

        Raises:
            InvalidArgumentError: a time or a value is not a number.
        """
        rows = self.pending
        if not rows:
            return
        time_s, value = (numbers_of(rows[field::COUNTER_FIELDS], "time_s and value of a counter") for field in (2, 3))
        keys = zip(rows[0::COUNTER_FIELDS], rows[1::COUNTER_FIELDS], strict=True)
        code = np.fromiter(map(self._number, keys), np.int32, len(time_s))
        self.rolling.extend(code, time_s, value)
        for column, values in ((self._code, code), (self._time_s, time_s), (self._value, value)):
            column.extend(values)
        codes, places = np.unique(code[::-1], return_index=True)
        self._last.update(zip(codes.tolist(), value[::-1][places].tolist(), strict=True))
        rows.clear()

    def _number(self, key: tuple[str, str]) -> int:
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._keys)
            self._keys.append(key)
        return code

    @property
    def rolling(self) -> RollingDigest:
        """The digest of all folded samples."""
        if self._rolling is None:  # a log that came out of a pickle
            self._rolling = self._new_digest()
            self._rolling.extend(self._code.view(), self._time_s.view(), self._value.view())
        return self._rolling

    def _new_digest(self) -> RollingDigest:
        return RollingDigest(lambda code: canonical_json(self._keys[code]), 2)

    def __getstate__(self) -> dict[str, object]:
        self.fold()
        return {**self.__dict__, "_rolling": None}

    def __len__(self) -> int:
        return len(self._code) + len(self.pending) // COUNTER_FIELDS

    @overload
    def __getitem__(self, index: int) -> Counter: ...
    @overload
    def __getitem__(self, index: slice) -> list[Counter]: ...
    def __getitem__(self, index: int | slice) -> Counter | list[Counter]:
        self.fold()
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        lane, name = self._keys[int(self._code[row])]
        return Counter(lane, name, self._time_s[row], self._value[row])

    def series(self, lane: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Times (seconds, float64) and values (float64) of one counter."""
        self.fold()
        chosen = self._code.view() == self._codes.get((lane, name), -1)
        return self._time_s.view()[chosen], self._value.view()[chosen]

    def last(self, lane: str, name: str) -> float | None:
        """The last value of one counter; None where it has no sample.

        Example:
            >>> log = CounterLog()
            >>> log.add("chief:0", "queue", 0.5, 3)
            >>> log.last("chief:0", "queue"), log.last("chief:0", "other")
            (3.0, None)
        """
        self.fold()
        code = self._codes.get((lane, name))
        return None if code is None else self._last[code]

    def lanes_of(self, name: str) -> list[str]:
        """The lanes that have a counter of this name, in the order of their first samples."""
        self.fold()
        return [lane for lane, counter in self._keys if counter == name]
