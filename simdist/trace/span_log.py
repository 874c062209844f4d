"""All spans of a log as columns: recording is cheap, and a record is built only when it is read.

A run records millions of spans. What hot code pays for is a line of six numbers at the end of a list
(`SpanLog.pending`); a few thousand of them at a time, and the rest at the next read, are folded into flat arrays
(growing.py) and into the digest (rolling.py).

A span has a *number*, its place in the order in which spans and instants were recorded, and a *cause*: the number of the
last record that it waited for, or -1. Causes say why, not what: they are no part of the digest.

Invariants: nothing that is looked at depends on when rows were folded; columns that are handed out never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from simdist.trace.growing import GrowingColumn, numbers_of
from simdist.trace.kinds import Kinds
from simdist.trace.records import Facts, Names, Span
from simdist.trace.rolling import RollingDigest

__all__ = ["FULL", "SPAN_FIELDS", "SpanLog"]

# The fields of rows, one after the other.
Fields: TypeAlias = list[Any]

BLOCK_ROWS = 4096
SPAN_FIELDS = 6  # kind, start_s, end_s, two numbers, cause
FULL = BLOCK_ROWS * SPAN_FIELDS  # pending fields at which a log is folded
NO_CODE = -2  # of a text that no kind has
ABSENT, CONSTANT = -2, -1


class SpanLog(Sequence[Span]):
    """All spans in the order in which they were recorded; indexing builds one `Span`.

    Attributes:
        kinds: what spans have in common (kinds.py).
        pending: fields of rows that are not folded yet: kind, start_s, end_s, two numbers, cause, and so on. The list
            stays the same object, so that hot code may keep it.
    """

    def __init__(self) -> None:
        self.kinds = Kinds()
        self.pending: Fields = []
        self._kind, self._cause = GrowingColumn(np.int32), GrowingColumn(np.int32)
        self._numbers = tuple(GrowingColumn(np.float64) for _ in range(4))  # start, end, a, b
        self._rolling: RollingDigest | None = self._new_digest()

    def fold(self) -> None:
        """Move pending rows into the columns.

        Raises:
            InvalidArgumentError: a time is not a number.
        """
        rows = self.pending
        if not rows:
            return
        numbers = [numbers_of(rows[field::SPAN_FIELDS], "start_s and end_s of a span") for field in range(1, 5)]
        kind = np.array(rows[0::SPAN_FIELDS], np.int32)
        self._cause.extend(np.array(rows[5::SPAN_FIELDS], np.int32))
        self.rolling.extend(kind, *numbers)
        self._kind.extend(kind)
        for column, values in zip(self._numbers, numbers, strict=True):
            column.extend(values)
        rows.clear()

    # -- the digest -----------------------------------------------------------------------------------------------

    @property
    def rolling(self) -> RollingDigest:
        """The digest of all folded spans."""
        if self._rolling is None:  # a log that came out of a pickle
            self._rolling = self._new_digest()
            self._rolling.extend(self._kind.view(), *(column.view() for column in self._numbers))
        return self._rolling

    def _new_digest(self) -> RollingDigest:
        return RollingDigest(lambda code: self.kinds.all[code].text, 4)

    def __getstate__(self) -> dict[str, object]:
        self.fold()
        return {**self.__dict__, "_rolling": None}

    # -- columns --------------------------------------------------------------------------------------------------

    @property
    def names(self) -> Names:
        """The texts of lanes, categories and names."""
        return self.kinds.names

    @property
    def kind(self) -> np.ndarray:
        """Numbers of the kinds: int32 of shape (n,)."""
        self.fold()
        return self._kind.view()

    @property
    def cause(self) -> np.ndarray:
        """Numbers of the causes, or -1: int32 of shape (n,)."""
        self.fold()
        return self._cause.view()

    def numbers(self) -> tuple[np.ndarray, ...]:
        """Starts, ends, and the two numbers of the spans: float64 of shape (n,) each."""
        self.fold()
        return tuple(column.view() for column in self._numbers)

    @property
    def start(self) -> np.ndarray:
        """Starts in virtual seconds: float64 of shape (n,)."""
        self.fold()
        return self._numbers[0].view()

    @property
    def end(self) -> np.ndarray:
        """Ends in virtual seconds: float64 of shape (n,)."""
        self.fold()
        return self._numbers[1].view()

    @property
    def lane(self) -> np.ndarray:
        """Codes of the lanes: int32 of shape (n,)."""
        return self._by_kind(0)

    @property
    def category(self) -> np.ndarray:
        """Codes of the categories: int32 of shape (n,)."""
        return self._by_kind(1)

    @property
    def name(self) -> np.ndarray:
        """Codes of the names: int32 of shape (n,)."""
        names = self._by_kind(2)
        for row in np.flatnonzero(names < 0).tolist():
            names[row] = self.names.code(self._name(row))
        return names

    def columns(self) -> dict[str, np.ndarray]:
        """Lane and category as int32 codes, start_s and end_s as float64: arrays of length n."""
        return {"lane": self.lane, "category": self.category, "start_s": self.start, "end_s": self.end}

    def _by_kind(self, field: int) -> np.ndarray:
        kind = self.kind
        return self.kinds.codes()[kind, field]

    def rows_where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> np.ndarray:
        """The row numbers that match every given word, ascending: int64 of shape (n,)."""
        codes, known = self.kinds.codes(), self.names.codes
        wanted = np.ones(len(codes), bool)
        for field, text in enumerate((lane, category)):
            if text is not None:
                wanted &= codes[:, field] == known.get(text, NO_CODE)
        unsure = wanted & (codes[:, 2] < 0) if name is not None else np.zeros(len(codes), bool)
        if name is not None:
            wanted &= unsure | (codes[:, 2] == known.get(name, NO_CODE))
        kinds = self.kind
        rows = np.flatnonzero(wanted[kinds])
        if not unsure.any():
            return rows
        return np.array([row for row in rows.tolist() if not unsure[kinds[row]] or self._name(row) == name], np.int64)

    def lanes(self) -> list[str]:
        """The lanes of all spans, in the order of their first ones."""
        kind = self.kind
        first = np.full(len(self.kinds.all), len(kind))
        first[kind[::-1]] = np.arange(len(kind))[::-1]  # of a kind that is there twice the last one counts
        used = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(kind))]
        return list(dict.fromkeys(self.kinds.all[number].lane for number in used.tolist()))

    # -- facts ----------------------------------------------------------------------------------------------------

    def facts_of(self, row: int) -> Facts:
        """The facts of one span."""
        self.fold()
        return self.kinds.all[int(self._kind[row])].facts_of(self._numbers[2][row], self._numbers[3][row])

    def rows_with_facts(self) -> np.ndarray:
        """The rows of the spans that have any facts, ascending: int64 of shape (n,)."""
        have = np.array([bool(kind.facts or kind.numbers) for kind in self.kinds.all], bool)
        return np.flatnonzero(have[self.kind])

    def values_of(self, fact: str) -> tuple[np.ndarray, list[Any]]:
        """The rows that have a fact of this name, ascending (int64 of shape (n,)), and its n values."""
        source, columns, constants = self._sources_of(fact)
        kind = self.kind
        rows = np.flatnonzero((source != ABSENT)[kind])
        own = kind[rows]
        values, source = constants[own], source[own]
        for number, (index, cast) in enumerate(columns):
            chosen = np.flatnonzero(source == number)
            column = self._numbers[2 + index].view()[rows[chosen]].tolist()
            values[chosen] = column if cast is float else list(map(cast, column))
        return rows, values.tolist()

    def integers_of(self, fact: str, integer: Callable[[Any], int] = int) -> tuple[np.ndarray, np.ndarray]:
        """As `values_of`, with an integer for each value: int64 of shape (n,). Values that kinds have in common are converted once."""
        source, columns, constants = self._sources_of(fact)
        by_kind = np.zeros(len(source), np.int64)
        for number in np.flatnonzero(source == CONSTANT).tolist():
            by_kind[number] = integer(constants[number])
        kind = self.kind
        rows = np.flatnonzero((source != ABSENT)[kind])
        own = kind[rows]
        integers, source = by_kind[own], source[own]
        for number, (index, cast) in enumerate(columns):
            chosen = np.flatnonzero(source == number)
            column = self._numbers[2 + index].view()[rows[chosen]]
            exact = integer is int and cast is int
            integers[chosen] = column if exact else [integer(cast(value)) for value in column.tolist()]
        return rows, integers

    def _sources_of(self, fact: str) -> tuple[np.ndarray, list[tuple[int, type]], np.ndarray]:
        """Where each kind has a fact: `ABSENT`, `CONSTANT`, or the number of a column; the columns with their types; the constants."""
        source, constants = np.full(len(self.kinds.all), ABSENT), np.empty(len(self.kinds.all), object)
        columns: dict[tuple[int, type], int] = {}
        for number, kind in enumerate(self.kinds.all):
            if fact in kind.facts:
                source[number], constants[number] = CONSTANT, kind.facts[fact]
            for index, (name, cast) in enumerate(kind.numbers):
                if name == fact:
                    source[number] = columns.setdefault((index, cast), len(columns))
        return source, list(columns), constants

    # -- records --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._kind) + len(self.pending) // SPAN_FIELDS

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
        kind = self.kinds.all[int(self._kind[row])]
        start_s, end_s, a, b = (column[row] for column in self._numbers)
        return Span(kind.lane, kind.category, kind.name_of(a, b), start_s, end_s, kind.facts_of(a, b), int(self._cause[row]))

    def _name(self, row: int) -> str:
        return self.kinds.all[int(self._kind[row])].name_of(self._numbers[2][row], self._numbers[3][row])

    def where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> list[Span]:
        """The spans that match every given word, in order."""
        return [self._span(row) for row in self.rows_where(lane, category, name).tolist()]
