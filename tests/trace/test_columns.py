"""Columns: what comes out is what went in, whenever it was folded, and a row costs few bytes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.errors import InvalidArgumentError
from simdist.trace import Counter, Span, Trace
from simdist.trace.columns import BLOCK_ROWS
from simdist.trace.fact_columns import FactColumns

values = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.booleans(),
    st.none(),
    st.tuples(st.integers(0, 3)),
)
facts = st.dictionaries(st.sampled_from(["bytes", "worker", "version"]), values)
words = st.sampled_from(["worker:0", "ps:0", "compute", "step"])
rows = st.lists(st.tuples(words, words, words, st.floats(0, 9), st.floats(0, 9), facts), max_size=12)


def typed(fact: Any) -> dict[str, tuple[type, Any]]:
    return {name: (type(value), value) for name, value in fact.items()}


@given(rows, st.sets(st.integers(0, 12)))
def test_facts_come_back_with_their_types_whenever_they_were_folded(spans: list[Any], looked: set[int]) -> None:
    trace, plain = Trace(), Trace()
    for number, (lane, category, name, start_s, end_s, fact) in enumerate(spans):
        for log in (trace, plain):
            log.span(lane, category, name, start_s, end_s, **fact)
        if number in looked:
            trace.spans.fold()
    assert list(trace.spans) == [Span(*row) for row in spans]
    assert [typed(span.facts) for span in trace.spans] == [typed(row[5]) for row in spans]
    assert dict(trace.spans.facts) == {row: span[5] for row, span in enumerate(spans) if span[5]}
    assert trace.names.texts == plain.names.texts, "codes do not depend on when somebody looked"
    assert trace.digest() == plain.digest()


@given(rows)
def test_one_fact_can_be_read_for_all_rows(spans: list[Any]) -> None:
    trace = Trace()
    for lane, category, name, start_s, end_s, fact in spans:
        trace.span(lane, category, name, start_s, end_s, **fact)
    found_rows, found = trace.spans.facts.values_of("bytes")
    expected = [(row, span[5]["bytes"]) for row, span in enumerate(spans) if "bytes" in span[5]]
    assert list(zip(found_rows.tolist(), found, strict=True)) == expected


def test_facts_of_other_types_are_kept_as_they_are() -> None:
    trace = Trace()
    things = [np.int64(3), np.float32(0.5), True, None, ["a"], 2**64, -(2**63), 2**63 - 1, 7]
    for thing in things:
        trace.span("a", "compute", "step", 0.0, 1.0, thing=thing)
    found = [span.facts["thing"] for span in trace.spans]
    assert [(type(thing), thing) for thing in found] == [(type(thing), thing) for thing in things]


def test_large_number_after_small_ones_turns_the_column_into_a_list() -> None:
    facts = FactColumns()
    for number in (1, 2**64, 2):
        facts.extend([{"n": number}], np.zeros(1, np.int32))
    assert [fact["n"] for fact in facts.values()] == [1, 2**64, 2]


def test_rows_without_facts_are_no_keys() -> None:
    trace = Trace()
    trace.span("a", "compute", "step", 0.0, 1.0)
    assert (len(trace.spans.facts), 0 in trace.spans.facts, trace.spans[0].facts) == (0, False, {})
    with pytest.raises(KeyError):
        trace.spans.facts[-1]


def test_pending_rows_are_seen_at_once() -> None:
    trace = Trace()
    for row in range(BLOCK_ROWS + 1):
        trace.span("a", "compute", f"step {row}", float(row), row + 1.0, row=row)
        trace.counter("a", "queue", float(row), float(row))
    assert (len(trace.spans), len(trace.counters)) == (BLOCK_ROWS + 1, BLOCK_ROWS + 1)
    assert trace.spans[-1] == Span("a", "compute", f"step {BLOCK_ROWS}", BLOCK_ROWS, BLOCK_ROWS + 1.0, {"row": BLOCK_ROWS})
    assert trace.counters[-1] == Counter("a", "queue", BLOCK_ROWS, BLOCK_ROWS)
    assert trace.end_s() == BLOCK_ROWS + 1.0
    assert trace.names.codes[f"step {BLOCK_ROWS}"] > 0


def test_recording_goes_on_while_somebody_walks_through_the_spans() -> None:
    trace = Trace()
    trace.span("a", "compute", "first", 0.0, 1.0)
    seen: list[str] = []
    for span in trace.spans:
        seen.append(span.name)
        if len(seen) < 3:
            trace.span("a", "compute", "another", 1.0, 2.0)
    assert seen == ["first", "another", "another"]


def test_columns_that_were_handed_out_do_not_stop_recording() -> None:
    trace = Trace()
    trace.span("a", "compute", "step", 0.0, 1.0)
    kept = [trace.spans.start, trace.spans.lane, trace.counters.columns()["value"]]
    trace.span("a", "compute", "step", 1.0, 2.0)
    assert len(trace.spans) == 2
    assert [len(column) for column in kept] == [1, 1, 0]


@pytest.mark.parametrize("wrong", [None, "1.0"])
def test_time_that_is_no_number_is_refused(wrong: Any) -> None:
    trace = Trace()
    trace.span("a", "compute", "step", 0.0, wrong)
    with pytest.raises(InvalidArgumentError, match=r"start_s and end_s of a span must be numbers; got .*: record a float"):
        trace.spans.fold()


def test_hundred_thousand_spans_with_facts_stay_small() -> None:
    tracemalloc.start()
    try:
        trace = Trace()
        for row in range(100_000):
            trace.span("ps:0", "apply", "sgd", row / 7, row / 7 + 0.1, worker=f"worker:{row % 8}", version=row)
        assert len(trace.spans) == 100_000
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size_bytes < 20_000_000
