"""Recording: what goes in comes out, in order, and costs nothing when switched off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.trace import Counter, Instant, Span, Trace

names = st.sampled_from(["worker:0", "ps:0", "compute", "step"])
times = st.floats(0, 1e6)
spans = st.tuples(names, names, names, times, times, st.dictionaries(st.sampled_from(["bytes", "step"]), st.integers()))


@given(st.lists(spans))
def test_spans_come_back_as_they_were_recorded(rows: list[tuple[str, str, str, float, float, dict[str, int]]]) -> None:
    trace = Trace()
    for lane, category, name, start_s, end_s, facts in rows:
        trace.span(lane, category, name, start_s, end_s, **facts)
    assert list(trace.spans) == [Span(*row) for row in rows]


@pytest.fixture
def trace() -> Trace:
    trace = Trace(seed=3)
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("worker:1", "compute", "step", 0.5, 2.0, bytes=8)
    trace.span("worker:0", "update", "push", 1.0, 1.25)
    trace.instant("worker:1", "crash", "crash of worker:1", 2.5, incarnation=0)
    trace.counter("ps:0", "queue", 0.0, 1.0)
    trace.counter("ps:0", "queue", 1.0, 2.0)
    trace.counter("ps:1", "queue", 0.5, 7.0)
    return trace


def test_spans_can_be_counted_from_the_end_and_cut(trace: Trace) -> None:
    assert trace.spans[-1] == trace.spans[2]
    assert [span.name for span in trace.spans[1:]] == ["step", "push"]
    with pytest.raises(IndexError):
        trace.spans[3]


def test_where_matches_every_given_word(trace: Trace) -> None:
    assert [span.start_s for span in trace.spans.where(category="compute")] == [0.0, 0.5]
    assert [span.start_s for span in trace.spans.where(lane="worker:0", category="compute")] == [0.0]
    assert trace.spans.where(lane="nobody") == []
    assert [item.time_s for item in trace.instants.where(category="crash")] == [2.5]


def test_columns_hold_codes_and_times(trace: Trace) -> None:
    columns = trace.spans.columns()
    assert [trace.names.texts[code] for code in columns["lane"]] == ["worker:0", "worker:1", "worker:0"]
    np.testing.assert_array_equal(columns["end_s"], [1.0, 2.0, 1.25])


def test_columns_are_copies_so_that_recording_can_go_on(trace: Trace) -> None:
    before = trace.spans.columns()["end_s"]
    trace.span("worker:0", "compute", "step", 2.0, 3.0)
    assert (len(before), len(trace.spans)) == (3, 4)


def test_instants_and_counters_come_back(trace: Trace) -> None:
    assert trace.instants[0] == Instant("worker:1", "crash", "crash of worker:1", 2.5, {"incarnation": 0})
    assert trace.counters[1] == Counter("ps:0", "queue", 1.0, 2.0)


def test_series_is_one_counter_of_one_lane(trace: Trace) -> None:
    when_s, values = trace.counters.series("ps:0", "queue")
    assert (when_s.tolist(), values.tolist()) == ([0.0, 1.0], [1.0, 2.0])
    assert trace.counters.series("ps:0", "unknown")[0].tolist() == []


def test_totals_add_up(trace: Trace) -> None:
    trace.total("ps:0", "bytes_sent", 3)
    trace.total("ps:0", "bytes_sent", 4)
    assert trace.totals == {("ps:0", "bytes_sent"): 7}


def test_end_is_the_last_moment_of_spans_and_instants(trace: Trace) -> None:
    assert (trace.end_s(), Trace().end_s()) == (2.5, 0.0)


def test_lane_is_declared_once() -> None:
    trace = Trace()
    for lane in ("b", "a", "b"):
        trace.declare_lane(lane)
    assert trace.lanes == ["b", "a"]


def test_trace_switched_off_keeps_instants_only() -> None:
    trace = Trace(enabled=False)
    trace.span("a", "compute", "step", 0.0, 1.0)
    trace.counter("a", "queue", 0.0, 1.0)
    trace.instant("a", "crash", "crash", 1.0)
    assert (len(trace.spans), len(trace.counters), len(trace.instants)) == (0, 0, 1)


def test_repr_is_one_line_without_addresses(trace: Trace) -> None:
    assert repr(trace) == "Trace(3 spans, 1 instants, 2.500000 virtual seconds)"
