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
from simdist.trace.span_log import BLOCK_ROWS

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
    assert trace.spans.rows_with_facts().tolist() == [row for row, span in enumerate(spans) if span[5]]
    assert trace.digest() == plain.digest()


@given(rows)
def test_one_fact_can_be_read_for_all_rows(spans: list[Any]) -> None:
    trace = Trace()
    for lane, category, name, start_s, end_s, fact in spans:
        trace.span(lane, category, name, start_s, end_s, **fact)
    found_rows, found = trace.spans.values_of("bytes")
    expected = [(row, span[5]["bytes"]) for row, span in enumerate(spans) if "bytes" in span[5]]
    assert list(zip(found_rows.tolist(), found, strict=True)) == expected


def test_facts_of_other_types_are_kept_as_they_are() -> None:
    trace = Trace()
    things = [np.int64(3), np.float32(0.5), True, None, ["a"], 2**64, -(2**63), 2**63 - 1, 7]
    for thing in things:
        trace.span("a", "compute", "step", 0.0, 1.0, thing=thing)
    found = [span.facts["thing"] for span in trace.spans]
    assert [(type(thing), thing) for thing in found] == [(type(thing), thing) for thing in things]


def test_rows_without_facts_are_not_among_those_with_facts() -> None:
    trace = Trace()
    trace.span("a", "compute", "step", 0.0, 1.0)
    trace.span("a", "compute", "step", 0.0, 1.0, bytes=8)
    assert (trace.spans.rows_with_facts().tolist(), trace.spans[0].facts) == ([1], {})


def test_name_may_show_a_number_of_its_span() -> None:
    trace = Trace()
    kind = trace.kind("worker:0", "closure", "closure {closure}", {"closure": int})
    for number in (3, 4, 3):
        trace.add(kind, 0.0, 1.0, number)
    trace.span("worker:0", "closure", "closure {closure}", 1.0, 2.0, closure=9)
    assert [span.name for span in trace.spans] == ["closure 3", "closure 4", "closure 3", "closure 9"]
    assert [trace.names.texts[code] for code in trace.spans.name] == ["closure 3", "closure 4", "closure 3", "closure 9"]
    assert trace.spans.rows_where(name="closure 3").tolist() == [0, 2]
    assert trace.spans[3].facts == {"closure": 9}


def test_declared_kind_is_the_kind_that_facts_give() -> None:
    fast, slow = Trace(), Trace()
    kind = fast.kind("ps:0", "apply", "sgd", {"version": int, "bytes": float}, worker="worker:1")
    assert kind == fast.kind("ps:0", "apply", "sgd", {"bytes": float, "version": int}, worker="worker:1")
    fast.add(kind, 0.0, 0.5, 8.5, 2)
    slow.span("ps:0", "apply", "sgd", 0.0, 0.5, worker="worker:1", version=2, bytes=8.5)
    assert fast.spans[0] == slow.spans[0]
    assert fast.digest() == slow.digest()


def test_records_have_numbers_and_causes_that_are_no_part_of_the_digest() -> None:
    trace, plain = Trace(), Trace()
    read = trace.span("worker:0", "read", "read", 0.0, 1.0)
    crash = trace.instant("ps:0", "crash", "crash of ps:0", 1.0)
    compute = trace.span("worker:0", "compute", "step", 1.0, 2.0, cause=read)
    detect = trace.instant("ps:0", "detect", "ps:0 is down", 3.0, cause=crash)
    assert (read, crash, compute, detect, trace.recorded) == (0, 1, 2, 3, 4)
    assert [trace.record(number).category for number in range(4)] == ["read", "crash", "compute", "detect"]
    assert [trace.record(number).cause for number in range(4)] == [-1, -1, 0, 1]
    plain.span("worker:0", "read", "read", 0.0, 1.0)
    plain.instant("ps:0", "crash", "crash of ps:0", 1.0)
    plain.span("worker:0", "compute", "step", 1.0, 2.0)
    plain.instant("ps:0", "detect", "ps:0 is down", 3.0)
    assert plain.digest() == trace.digest()
    assert list(plain.spans) == list(trace.spans)


def test_without_recording_a_span_has_no_number() -> None:
    trace = Trace(enabled=False)
    assert (trace.span("a", "compute", "step", 0.0, 1.0), trace.add(0, 0.0, 1.0), len(trace.spans)) == (-1, -1, 0)


def test_pending_rows_are_seen_at_once() -> None:
    trace = Trace()
    for row in range(BLOCK_ROWS + 1):
        trace.span("a", "compute", f"step {row}", float(row), row + 1.0, row=row)
        trace.counter("a", "queue", float(row), float(row))
    assert (len(trace.spans), len(trace.counters)) == (BLOCK_ROWS + 1, BLOCK_ROWS + 1)
    assert trace.spans[-1] == Span("a", "compute", f"step {BLOCK_ROWS}", BLOCK_ROWS, BLOCK_ROWS + 1.0, {"row": BLOCK_ROWS})
    assert trace.counters[-1] == Counter("a", "queue", BLOCK_ROWS, BLOCK_ROWS)
    assert trace.end_s() == BLOCK_ROWS + 1.0


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
    kept = [trace.spans.start, trace.spans.lane, trace.counters.series("a", "queue")[1]]
    trace.span("a", "compute", "step", 1.0, 2.0)
    assert len(trace.spans) == 2
    assert [len(column) for column in kept] == [1, 1, 0]


@pytest.mark.parametrize("wrong", [None, "1.0"])
def test_time_that_is_no_number_is_refused(wrong: Any) -> None:
    trace = Trace()
    trace.span("a", "compute", "step", 0.0, wrong)
    with pytest.raises(InvalidArgumentError, match=r"start_s and end_s of a span must be numbers; got .*: record a float"):
        trace.spans.fold()


def test_thirty_thousand_spans_with_facts_stay_small() -> None:
    tracemalloc.start()
    try:
        trace = Trace()
        for row in range(30_000):
            trace.span("ps:0", "apply", "sgd", row / 7, row / 7 + 0.1, worker=f"worker:{row % 8}", version=row)
        assert len(trace.spans) == 30_000
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size_bytes < 6_000_000


def test_integers_of_a_fact_come_from_constants_numbers_and_what_converts_them() -> None:
    trace = Trace()
    for facts in ({"n": True}, {"n": 7}, {"m": 1}, {"n": 2.75}, {"n": "12"}, {"a": 1, "b": 2, "n": 5}):
        trace.span("worker:0", "compute", "step", 0.0, 1.0, **facts)
    rows, integers = trace.spans.integers_of("n")
    assert (rows.tolist(), integers.tolist()) == ([0, 1, 3, 4, 5], [1, 7, 2, 12, 5])
    assert trace.spans.integers_of("n", lambda value: len(str(value)))[1].tolist() == [4, 1, 4, 2, 1]
    assert trace.spans.integers_of("none")[0].tolist() == []
    assert trace.spans.values_of("n")[1] == [True, 7, 2.75, "12", 5]


def test_lanes_come_in_the_order_of_their_first_spans() -> None:
    trace = Trace()
    first, second, third = (trace.kind(lane, "compute", "step") for lane in ("b", "a", "c"))
    for kind in (third, first, third, first):
        trace.add(kind, 0.0, 1.0)
    assert trace.spans.lanes() == ["c", "b"] and second == 1
    assert Trace().spans.lanes() == []
