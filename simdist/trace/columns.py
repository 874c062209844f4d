"""The logs of a trace as columns: recording is cheap, and a record is built only when it is read.

A run records millions of spans. What hot code pays for is a line of fields at the end of a list (`SpanLog.pending`);
a few thousand of them at a time, and the rest at the next read, are folded into flat arrays in which texts
are small integers (records.py, fact_columns.py).

Invariants: nothing that is looked at depends on when rows were folded; columns that are handed out are copies, so
that recording can go on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, SupportsFloat, TypeAlias, overload

import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.trace.fact_columns import FactColumns
from simdist.trace.records import NO_FACTS, Counter, Facts, Instant, Names, Span

__all__ = ["COUNTER_FIELDS", "FULL", "SPAN_FIELDS", "CounterLog", "InstantLog", "SpanLog"]

# The fields of rows, one after the other; a row is a record's fields in their order.
Fields: TypeAlias = list[Any]

BLOCK_ROWS = 4096
SPAN_FIELDS, COUNTER_FIELDS = 6, 4  # of a pending row
FULL = BLOCK_ROWS * SPAN_FIELDS  # pending fields at which a log is folded


class SpanLog(Sequence[Span]):
    """All spans in the order in which they ended; indexing builds one `Span`.

    Attributes:
        pending: fields of rows that are not folded yet: lane, category, name, start_s, end_s, facts, and so on. The
            list stays the same object, so that hot code may keep it.
    """

    def __init__(self) -> None:
        self.pending: Fields = []
        self._names = Names()
        self._codes = (array("i"), array("i"), array("i"))  # lane, category, name
        self._times_s = (array("d"), array("d"))  # start, end
        self._facts = FactColumns()

    def add(self, lane: str, category: str, name: str, start_s: float, end_s: float, facts: Facts) -> None:
        """Append a span."""
        self.pending += (lane, category, name, start_s, end_s, facts)
        if len(self.pending) >= FULL:
            self.fold()

    def fold(self) -> None:
        """Move pending rows into the columns.

        Raises:
            InvalidArgumentError: a time is not a number.
        """
        rows = self.pending
        if not rows:
            return
        times_s = [_floats(rows[field::SPAN_FIELDS], "start_s and end_s of a span") for field in (3, 4)]
        codes = self._names.encode(*(rows[field::SPAN_FIELDS] for field in range(3)))
        self._facts.extend(rows[5::SPAN_FIELDS], codes[1])
        for column, values in zip((*self._codes, *self._times_s), (*codes, *times_s), strict=True):
            column.frombytes(values.tobytes())
        rows.clear()

    # -- columns --------------------------------------------------------------------------------------------------

    @property
    def names(self) -> Names:
        """The texts of lanes, categories and names."""
        self.fold()
        return self._names

    @property
    def facts(self) -> FactColumns:
        """Facts by row number, of the rows that have any."""
        self.fold()
        return self._facts

    @property
    def lane(self) -> np.ndarray:
        """Codes of the lanes: int32 of shape (n,)."""
        return self.columns()["lane"]

    @property
    def category(self) -> np.ndarray:
        """Codes of the categories: int32 of shape (n,)."""
        return self.columns()["category"]

    @property
    def name(self) -> np.ndarray:
        """Codes of the names: int32 of shape (n,)."""
        return self.columns()["name"]

    @property
    def start(self) -> np.ndarray:
        """Starts in virtual seconds: float64 of shape (n,)."""
        return self.columns()["start_s"]

    @property
    def end(self) -> np.ndarray:
        """Ends in virtual seconds: float64 of shape (n,)."""
        return self.columns()["end_s"]

    def columns(self) -> dict[str, np.ndarray]:
        """The columns as arrays of length n: lane, category and name as int32 codes, start_s and end_s as float64."""
        self.fold()
        codes = zip(("lane", "category", "name"), self._codes, strict=True)
        times_s = zip(("start_s", "end_s"), self._times_s, strict=True)
        return {key: np.array(column, np.int32) for key, column in codes} | {key: np.array(column, np.float64) for key, column in times_s}

    def rows_where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> np.ndarray:
        """The row numbers that match every given word, ascending: int64 of shape (n,)."""
        columns, codes = self.columns(), self._names.codes
        chosen = np.ones(len(columns["lane"]), bool)
        for key, word in (("lane", lane), ("category", category), ("name", name)):
            if word is not None:
                chosen &= columns[key] == codes.get(word, -1)
        return np.flatnonzero(chosen)

    # -- records --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._codes[0]) + len(self.pending) // SPAN_FIELDS

    @overload
    def __getitem__(self, index: int) -> Span: ...
    @overload
    def __getitem__(self, index: slice) -> list[Span]: ...
    def __getitem__(self, index: int | slice) -> Span | list[Span]:
        self.fold()
        if isinstance(index, slice):
            return [self._span(row) for row in range(*index.indices(len(self)))]
        return self._span(range(len(self))[index])

    def __iter__(self) -> Iterator[Span]:
        row = 0
        while row < len(self):  # asked again each time: recording may go on
            self.fold()
            yield self._span(row)
            row += 1

    def _span(self, row: int) -> Span:
        lane, category, name = (self._names.texts[column[row]] for column in self._codes)
        start_s, end_s = self._times_s
        return Span(lane, category, name, start_s[row], end_s[row], self._facts.get(row, NO_FACTS))

    def where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> list[Span]:
        """The spans that match every given word, in order."""
        return [self._span(row) for row in self.rows_where(lane, category, name).tolist()]


class InstantLog(Sequence[Instant]):
    """All instants in order of time."""

    def __init__(self) -> None:
        self.items: list[Instant] = []

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> Instant: ...
    @overload
    def __getitem__(self, index: slice) -> list[Instant]: ...
    def __getitem__(self, index: int | slice) -> Instant | list[Instant]:
        return self.items[index]

    def where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> list[Instant]:
        """The instants that match every given word, in order."""
        wanted = {"lane": lane, "category": category, "name": name}
        return [item for item in self.items if all(v is None or getattr(item, k) == v for k, v in wanted.items())]


class CounterLog(Sequence[Counter]):
    """All counter samples in order of time.

    Attributes:
        pending: fields of samples that are not folded yet: lane, name, time_s, value, and so on.
    """

    def __init__(self) -> None:
        self.pending: Fields = []
        self._names = Names()
        self._codes = (array("i"), array("i"))  # lane, name
        self._numbers = (array("d"), array("d"))  # time_s, value

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
        numbers = [_floats(rows[field::COUNTER_FIELDS], "time_s and value of a counter") for field in (2, 3)]
        codes = self._names.encode(*(rows[field::COUNTER_FIELDS] for field in range(2)))
        for column, values in zip((*self._codes, *self._numbers), (*codes, *numbers), strict=True):
            column.frombytes(values.tobytes())
        rows.clear()

    @property
    def names(self) -> Names:
        """The texts of lanes and names."""
        self.fold()
        return self._names

    def columns(self) -> dict[str, np.ndarray]:
        """The columns as arrays of length n: lane and name as int32 codes, time_s and value as float64."""
        self.fold()
        codes = zip(("lane", "name"), self._codes, strict=True)
        numbers = zip(("time_s", "value"), self._numbers, strict=True)
        return {key: np.array(column, np.int32) for key, column in codes} | {key: np.array(column, np.float64) for key, column in numbers}

    def __len__(self) -> int:
        return len(self._codes[0]) + len(self.pending) // COUNTER_FIELDS

    @overload
    def __getitem__(self, index: int) -> Counter: ...
    @overload
    def __getitem__(self, index: slice) -> list[Counter]: ...
    def __getitem__(self, index: int | slice) -> Counter | list[Counter]:
        self.fold()
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        lane, name = (self._names.texts[column[row]] for column in self._codes)
        time_s, value = self._numbers
        return Counter(lane, name, time_s[row], value[row])

    def series(self, lane: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Times (seconds, float64) and values (float64) of one counter."""
        columns, codes = self.columns(), self._names.codes
        chosen = (columns["lane"] == codes.get(lane, -1)) & (columns["name"] == codes.get(name, -1))
        return columns["time_s"][chosen], columns["value"][chosen]

    def lanes_of(self, name: str) -> list[str]:
        """The lanes that have a counter of this name, in the order of their first samples."""
        columns = self.columns()
        lanes = columns["lane"][columns["name"] == self._names.codes.get(name, -1)]
        return [self._names.texts[code] for code in dict.fromkeys(lanes.tolist())]


def _floats(values: Fields, what: str) -> array[float]:
    try:
        return array("d", values)
    except TypeError:
        wrong = next((value for value in values if not isinstance(value, SupportsFloat)), None)
        raise InvalidArgumentError(f"{what} must be numbers; got {wrong!r} of type {type(wrong).__name__}: record a float.") from None
