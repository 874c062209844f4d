"""A growing log in pieces: what has been recorded since the last look, as columns that a front end appends.

Rows come in batches: spans, then instants, then counters, each in order of recording. The value of an update is its staleness. Texts are
sent once: each batch names the lanes, names and categories that are new. What has been sent is never sent again.

The other side is src/live_trace.ts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from simdist.trace import Trace
from simdist.trace.kinds import SpanKind
from simdist.trace.plots import lane_names
from simdist.trace.styles import MARK_STYLES, SPAN_STYLES, mark_style, span_style
from simdist_widgets.trace_bytes import pack

__all__ = ["LogFeed", "known_styles"]

SPAN, INSTANT, COUNTER = 0, 1, 2
NO_CAUSE = 0xFFFFFFFF


def known_styles() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The styles of all categories of spans and of instants that are known by name."""
    return [_kind(name) for name in SPAN_STYLES], [_mark(name) for name in MARK_STYLES]


def _kind(name: str) -> dict[str, Any]:
    return {"name": name, "color": span_style(name).color, "level": span_style(name).level}


def _mark(name: str) -> dict[str, Any]:
    style = mark_style(name)
    return {"name": name, "color": style.color, "level": style.level, "body": style.glyph.body, "sign": style.glyph.sign}


class _Texts:
    """Texts with numbers, of which those that are new are sent with the next batch."""

    def __init__(self, first: list[str]) -> None:
        self.number = {text: number for number, text in enumerate(first)}
        self.new: list[str] = []

    def code(self, text: str) -> int:
        found = self.number.get(text)
        if found is None:
            found = self.number[text] = len(self.number)
            self.new.append(text)
        return found

    def take_new(self) -> list[str]:
        new, self.new = self.new, []
        return new


class LogFeed:
    """What the trace of one run has recorded since the last look. It keeps no trace: a run that is done again has an equal one.

    Attributes:
        rows: how many were given so far.

    Example:
        >>> trace, feed = Trace(), LogFeed()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> header, data = feed.take(trace)
        >>> header["from_row"], header["rows"], header["lanes"], feed.take(trace)
        (0, 1, ['worker:0'], None)
    """

    def __init__(self) -> None:
        self.rows = 0
        self._spans = self._instants = self._counters = 0
        self._lanes, self._names = _Texts([]), _Texts([])
        self._kinds, self._marks = _Texts(list(SPAN_STYLES)), _Texts(list(MARK_STYLES))

    def take(self, trace: Trace) -> tuple[dict[str, Any], bytes] | None:
        """The header and the bytes of the new rows of a trace, None where there are none."""
        for lane in lane_names(trace) if not self.rows else ():
            self._lanes.code(lane)
        parts = [part for part in (self._new_spans(trace), self._new_instants(trace), self._new_counters(trace)) if len(part["start"])]
        if not parts:
            return None
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        places, data = pack(columns)
        count = len(columns["start"])
        header = {
            "from_row": self.rows,
            "rows": count,
            "names": self._names.take_new(),
            "lanes": self._lanes.take_new(),
            "kinds": [_kind(name) for name in self._kinds.take_new()],
            "marks": [_mark(name) for name in self._marks.take_new()],
            "columns": places,
        }
        self.rows += count
        return header, data

    def _new_spans(self, trace: Trace) -> dict[str, np.ndarray]:
        spans = trace.spans
        start, end, first, second = (column[self._spans :] for column in spans.numbers())
        kind, cause = spans.kind[self._spans :], spans.cause[self._spans :]
        lane, category, name = (np.zeros(len(kind), np.int64) for _ in range(3))
        value = np.zeros(len(kind))
        for code, rows in _rows_by_code(kind):
            common = spans.kinds.all[code]
            lane[rows], category[rows] = self._lanes.code(common.lane), self._kinds.code(common.category)
            if common.category == "apply":
                value[rows] = _staleness(common, first[rows], second[rows])
            if common.numbered:
                for row in rows.tolist():
                    name[row] = self._names.code(spans[self._spans + row].name)
            else:
                name[rows] = self._names.code(common.name)
        numbers = self._numbers_of_spans(trace, len(kind))
        self._spans += len(kind)
        return _columns(SPAN, lane, start, end - start, name, category, value, cause, numbers)

    def _numbers_of_spans(self, trace: Trace, count: int) -> np.ndarray:
        """The numbers of the records that the next spans are: all instants that were given came before them."""
        rows = np.arange(self._spans, self._spans + count)
        new = np.array(trace.instants.spans_before[self._instants :], np.int64)
        return rows + self._instants + np.searchsorted(new, rows, side="right")

    def _new_instants(self, trace: Trace) -> dict[str, np.ndarray]:
        log = trace.instants
        new = log[self._instants :]
        numbers = [self._instants + place + before for place, before in enumerate(log.spans_before[self._instants :])]
        self._instants += len(new)
        start = np.array([instant.time_s for instant in new], np.float64)
        lane = np.array([self._lanes.code(instant.lane) for instant in new], np.int64)
        name = np.array([self._names.code(instant.name) for instant in new], np.int64)
        category = np.array([self._marks.code(instant.category) for instant in new], np.int64)
        cause = np.array([instant.cause for instant in new], np.int64)
        nothing = np.zeros(len(new))
        return _columns(INSTANT, lane, start, nothing, name, category, nothing, cause, np.array(numbers, np.int64))

    def _new_counters(self, trace: Trace) -> dict[str, np.ndarray]:
        new = trace.counters[self._counters :]
        self._counters += len(new)
        start = np.array([counter.time_s for counter in new], np.float64)
        value = np.array([counter.value for counter in new], np.float64)
        lane = np.array([self._lanes.code(counter.lane) for counter in new], np.int64)
        name = np.array([self._names.code(counter.name) for counter in new], np.int64)
        nothing, none = np.zeros(len(new)), np.full(len(new), -1, np.int64)
        return _columns(COUNTER, lane, start, nothing, name, np.zeros(len(new), np.int64), value, none, none)


def _rows_by_code(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each code with its rows, both ascending. The rows are sorted once: each task has kinds of its own, so there may be many codes."""
    order = np.argsort(codes, kind="stable")
    found, first = np.unique(codes[order], return_index=True)
    return zip(found.tolist(), np.split(order, first[1:]), strict=True) if len(found) else iter(())


def _staleness(common: SpanKind, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The staleness of updates of one kind, as `simdist.trace.staleness` defines it: float64 of shape (n,); NaN where none is reported."""
    if [name for name, _ in common.numbers] != ["read_version", "version"]:
        return np.full(len(first), np.nan)
    return second - 1 - first


def _columns(
    sort: int,
    lane: np.ndarray,
    start: np.ndarray,
    duration: np.ndarray,
    name: np.ndarray,
    category: np.ndarray,
    value: np.ndarray,
    cause: np.ndarray,
    number: np.ndarray,
) -> dict[str, np.ndarray]:
    def whole(column: np.ndarray) -> np.ndarray:
        return np.where(column < 0, np.uint32(NO_CAUSE), column).astype(np.uint32)

    return {
        "lane": lane.astype(np.uint32),
        "start": start.astype(np.float64),
        "duration": duration.astype(np.float32),
        "name": name.astype(np.uint32),
        "category": category.astype(np.uint8),
        "sort": np.full(len(start), sort, np.uint8),
        "value": value.astype(np.float64),
        "cause": whole(cause),
        "number": whole(number),
    }
