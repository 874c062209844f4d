"""A log in pieces is the log: the same rows whatever the pieces are, with the numbers and causes of its records."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from session_programs import CRASH, session_of
from simdist.trace import Trace
from simdist.trace.records import Span
from simdist.trace.span_log import SpanLog
from simdist_widgets.log_feed import COUNTER, INSTANT, NO_CAUSE, SPAN, LogFeed

Row = tuple[Any, ...]
records = st.lists(st.tuples(st.sampled_from(["span", "numbered", "instant", "counter", "cut"]), st.integers(0, 3)), max_size=60)


class Reader:
    """The front end: it appends what it gets."""

    def __init__(self) -> None:
        self.texts: dict[str, list[Any]] = {"lanes": [], "names": [], "kinds": [], "marks": []}
        self.rows: list[Row] = []

    def read(self, found: tuple[dict[str, Any], bytes] | None) -> None:
        if found is None:
            return
        header, data = found
        assert header["from_row"] == len(self.rows) and header["rows"] > 0
        for name, known in self.texts.items():
            known += header[name]
        columns = [
            np.frombuffer(data, f"<{place['dtype']}", place["length"], place["offset"]).tolist() for place in header["columns"].values()
        ]
        for row in zip(*columns, strict=True):
            fields = dict(zip(header["columns"], row, strict=True))
            fields["lane"], fields["name"] = self.texts["lanes"][fields["lane"]], self.texts["names"][fields["name"]]
            self.rows.append(tuple(fields.values()))


def records_of(rows: list[Row]) -> dict[int, Row]:
    """Lane, start, name and cause of the records, by their numbers."""
    return {number: (lane, start, name, cause) for lane, start, _, name, _, sort, _, cause, number in rows if sort != COUNTER}


def check(trace: Trace, rows: list[Row]) -> None:
    found = records_of(rows)
    assert sorted(found) == list(range(trace.recorded))
    for number, (lane, start_s, name, cause) in found.items():
        record = trace.record(number)
        at_s = record.start_s if isinstance(record, Span) else record.time_s
        assert (lane, start_s, name, cause) == (record.lane, at_s, record.name, record.cause if record.cause >= 0 else NO_CAUSE)


@examples(150)
@given(records)
def test_pieces_have_the_rows_of_the_whole(story: list[tuple[str, int]]) -> None:
    trace, feed, reader = Trace(), LogFeed(), Reader()
    numbered = trace.kind("worker:0", "closure", "closure {closure}", {"closure": int})
    for place, (what, value) in enumerate(story):
        at_s, cause = float(place), min(value, trace.recorded) - 1
        if what == "span":
            trace.span(f"worker:{value}", f"category {value}", "step", at_s, at_s + 0.5, cause=cause)
        elif what == "numbered":
            trace.add(numbered, at_s, at_s + 0.5, value, 0.0, cause)
        elif what == "instant":
            trace.instant(f"worker:{value}", "mark", f"mark {value}", at_s, cause=cause)
        elif what == "counter":
            trace.counter("chief:0", "queue", at_s, value)
        else:
            reader.read(feed.take(trace))
    reader.read(feed.take(trace))
    assert feed.take(trace) is None
    check(trace, reader.rows)
    whole = Reader()
    whole.read(LogFeed().take(trace))
    for sort in (SPAN, INSTANT, COUNTER):
        mine, its = ([row[:4] + row[6:] for row in each.rows if row[5] == sort] for each in (reader, whole))
        assert mine == its


@pytest.mark.parametrize("name", ["coordinator", "survivors", "workers from a notebook"])
def test_rows_of_a_run_have_the_numbers_and_causes_of_its_records(name: str) -> None:
    session, feed, reader = session_of(name), LogFeed(), Reader()
    for events in itertools.cycle([1, 7, 40]):
        session.advance(events=events)
        reader.read(feed.take(session.trace))
        if session.state == "finished":
            break
        if len(session.commands) == 0 and session.now > 0.0003 and name == "coordinator":
            session.inject(CRASH)
    check(session.trace, reader.rows)
    assert sum(row[5] == COUNTER for row in reader.rows) == len(session.trace.counters)


def test_last_value_of_a_counter_is_that_of_its_series() -> None:
    counters = Trace().counters
    for place in range(9_000):
        counters.add("chief:0", "queue" if place % 3 else "other", float(place), place % 11)
        if place % 1_000 == 999:
            for name in ("queue", "other"):
                assert counters.last("chief:0", name) == counters.series("chief:0", name)[1][-1]
    assert counters.last("chief:0", "none") is None


def test_the_value_of_an_update_is_its_staleness() -> None:
    trace, reader = Trace(), Reader()
    trace.span("ps:0", "apply", "sgd", 0.0, 1.0, read_version=2, version=5)
    trace.span("ps:0", "apply", "sgd", 1.0, 2.0, version=6)
    trace.span("worker:0", "read", "read", 1.0, 2.0, read_version=2, version=5)
    reader.read(LogFeed().take(trace))
    stale, unknown, other = [row[6] for row in reader.rows]
    assert (stale, math.isnan(unknown), other) == (2.0, True, 0.0)


class Compared(np.ndarray):
    """A column that counts the rows that are compared with one code."""

    rows = 0

    def __eq__(self, other: object) -> Any:
        Compared.rows += self.size
        return np.asarray(self) == other


def test_rows_are_not_searched_again_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, kind = Trace(), SpanLog.kind
    for number in range(400):
        trace.span(f"worker:{number % 100}", "compute", "step", float(number), number + 0.5)
    monkeypatch.setattr(SpanLog, "kind", property(lambda spans: kind.fget(spans).view(Compared)))
    taken = LogFeed().take(trace)
    assert taken is not None and taken[0]["rows"] == 400 and len(taken[0]["lanes"]) == 100
    assert Compared.rows <= 4 * 400
