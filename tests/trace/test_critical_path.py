"""The critical path: hand-made runs whose longest chain is known, and the tiling that every path must have."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from simdist.trace import Trace, format_summary
from simdist.trace.critical_path import CriticalPath


def on_path(trace: Trace) -> list[tuple[str, str, float, float]]:
    return [(part.span.lane, part.span.category, part.start_s, part.end_s) for part in trace.critical_path().segments]


def check_tiling(path: CriticalPath) -> None:
    """Each segment and the wait before it begin where the one before ended, in exact arithmetic."""
    reached_s = 0.0
    for part in path.segments:
        assert part.span.start_s <= part.start_s <= part.end_s <= part.span.end_s
        assert part.waited_s == part.start_s - reached_s >= 0
        reached_s = part.end_s
    assert reached_s == path.end_s
    whole = sum((Fraction(part.end_s) - Fraction(part.start_s) for part in path.segments), Fraction(0))
    gaps = [Fraction(0), *(Fraction(part.end_s) for part in path.segments)]
    waits = sum((Fraction(part.start_s) - gap for part, gap in zip(path.segments, gaps, strict=False)), Fraction(0))
    assert whole + waits == Fraction(path.end_s)


def test_one_lane_is_its_own_path_with_its_gaps() -> None:
    trace = Trace()
    trace.span("worker:0", "input", "batch", 0.5, 1.0)
    trace.span("worker:0", "compute", "step", 1.0, 3.0)
    trace.span("worker:0", "update", "update", 3.25, 4.0)
    path = trace.critical_path()
    assert [(part.duration_s, part.waited_s) for part in path.segments] == [(0.5, 0.5), (2.0, 0.0), (0.75, 0.25)]
    assert (path.end_s, path.waited_s) == (4.0, 0.75)
    assert path.seconds == {"compute": 2.0, "update": 0.75, "input": 0.5}


def test_apply_after_an_update_is_caused_by_its_worker() -> None:
    trace = Trace()
    trace.span("worker:1", "compute", "step", 0.0, 1.0)
    trace.span("worker:0", "compute", "step", 0.0, 2.0)
    trace.span("worker:0", "update", "update", 2.0, 2.5)
    trace.span("ps:0", "apply", "sgd", 3.0, 4.0, worker="worker:0")
    assert on_path(trace) == [
        ("worker:0", "compute", 0.0, 2.0),
        ("worker:0", "update", 2.0, 2.5),
        ("ps:0", "apply", 3.0, 4.0),
    ]
    assert trace.critical_path().waited_s == 0.5


def test_update_that_waits_for_two_servers_goes_through_the_slower_one() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 1.25, 1.5, worker="worker:0")
    trace.span("ps:1", "apply", "sgd", 1.25, 3.0, worker="worker:0")
    trace.span("worker:0", "update", "update", 1.0, 3.25)
    assert on_path(trace) == [
        ("worker:0", "compute", 0.0, 1.0),
        ("worker:0", "update", 1.0, 1.25),  # the message
        ("ps:1", "apply", 1.25, 3.0),
        ("worker:0", "update", 3.0, 3.25),  # the confirmation
    ]


def queue_of_workers(workers: int, compute_s: float, latency_s: float, apply_s: float) -> Trace:
    """All workers send to one server at once, which applies one update after the other."""
    trace = Trace()
    for worker in range(workers):
        trace.span(f"worker:{worker}", "compute", "step", 0.0, compute_s)
    for worker in range(workers):
        start_s = compute_s + latency_s + worker * apply_s
        trace.span("ps:0", "apply", "sgd", start_s, start_s + apply_s, worker=f"worker:{worker}")
        trace.span(f"worker:{worker}", "update", "update", compute_s, start_s + apply_s + latency_s)
    return trace


def test_busy_server_is_the_cause_in_closed_form() -> None:
    path = queue_of_workers(5, compute_s=1.0, latency_s=0.125, apply_s=0.5).critical_path()
    assert path.end_s == 1.0 + 2 * 0.125 + 5 * 0.5
    assert path.seconds == {"apply": 5 * 0.5, "compute": 1.0, "update": 2 * 0.125}
    assert path.waited_s == 0.0
    assert path.segments[0].span.lane == "worker:0", "the first in the queue began the chain"


def test_idle_server_is_not_the_cause() -> None:
    trace = Trace()
    trace.span("ps:0", "apply", "sgd", 0.0, 1.0, worker="worker:9")
    trace.span("worker:0", "compute", "step", 0.0, 2.0)
    trace.span("ps:0", "apply", "sgd", 2.5, 3.0, worker="worker:0")
    trace.span("worker:0", "update", "update", 2.0, 3.5)
    assert [part[1] for part in on_path(trace)] == ["compute", "update", "apply", "update"]


def test_read_that_names_a_server_waits_for_it() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 1.0, 3.0)
    trace.span("worker:0", "read", "read", 3.0, 3.5, server="ps:0")
    assert on_path(trace) == [("ps:0", "apply", 1.0, 3.0), ("worker:0", "read", 3.0, 3.5)]
    trace.span("ps:1", "apply", "sgd", 3.5, 5.0)
    trace.span("worker:0", "read", "read", 3.5, 6.0, server=["ps:0", "ps:1"])
    assert on_path(trace)[-2:] == [("ps:1", "apply", 3.5, 5.0), ("worker:0", "read", 5.0, 6.0)]


def test_read_that_names_no_server_waits_for_its_own_lane_only() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 1.0, 3.0)
    trace.span("worker:0", "read", "read", 3.0, 3.5)
    assert [part[1] for part in on_path(trace)] == ["compute", "read"]
    assert trace.critical_path().waited_s == 2.0


def test_collective_is_caused_by_the_last_participant() -> None:
    trace = Trace()
    for worker, compute_s in enumerate((1.0, 3.0, 2.0)):
        trace.span(f"worker:{worker}", "compute", "step", 0.0, compute_s)
    for worker, arrived_s in enumerate((1.0, 3.0, 2.0)):
        trace.span(f"worker:{worker}", "collective", "ring", arrived_s, 4.0)
    trace.span("worker:0", "compute", "step", 4.0, 5.0)
    assert on_path(trace) == [
        ("worker:1", "compute", 0.0, 3.0),
        ("worker:1", "collective", 3.0, 4.0),
        ("worker:0", "compute", 4.0, 5.0),
    ]


def test_collective_that_begins_everywhere_at_once_is_caused_by_the_slowest() -> None:
    trace = Trace()
    for worker, compute_s in enumerate((1.0, 3.0)):
        trace.span(f"worker:{worker}", "compute", "step", 0.0, compute_s)
    for worker in range(2):
        trace.span(f"worker:{worker}", "collective", "ring", 3.0, 4.0)
    assert on_path(trace) == [("worker:1", "compute", 0.0, 3.0), ("worker:1", "collective", 3.0, 4.0)]


def test_closure_stands_for_itself_only_without_parts() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("worker:0", "closure", "closure 0", 0.0, 1.5)
    trace.span("worker:0", "closure", "closure 1", 2.0, 3.0)
    assert on_path(trace) == [("worker:0", "compute", 0.0, 1.0), ("worker:0", "closure", 2.0, 3.0)]


def test_down_time_is_on_the_path() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("worker:0", "down", "down", 1.5, 4.0)
    trace.span("worker:0", "compute", "step", 4.0, 5.0)
    assert trace.critical_path().seconds == {"down": 2.5, "compute": 2.0}


def test_empty_log_has_an_empty_path() -> None:
    path = Trace().critical_path()
    assert (path.segments, path.end_s, path.waited_s, path.seconds) == ((), 0.0, 0.0, {})


def test_spans_without_duration_decide_nothing() -> None:
    trace = Trace()
    for _ in range(3):
        trace.span("ps:0", "apply", "sgd", 1.0, 1.0, worker="worker:0")
        trace.span("worker:0", "update", "update", 1.0, 1.0)
    trace.span("worker:0", "compute", "step", 1.0, 2.0)
    trace.span("chief:0", "apply", "add", 2.5, 2.5)
    assert on_path(trace) == [("worker:0", "compute", 1.0, 2.0)]
    assert trace.critical_path().waited_s == 1.0


lanes = st.sampled_from(["worker:0", "worker:1", "ps:0"])
categories = st.sampled_from(["compute", "update", "apply", "read", "collective", "closure", "down"])
rows = st.lists(st.tuples(lanes, categories, st.integers(0, 20), st.integers(0, 5), st.sampled_from([None, *["worker:0", "worker:1"]])))


@given(rows, st.sampled_from([1.0, 0.1, 1 / 3]))
def test_every_path_tiles_the_run(spans: list[tuple[str, str, int, int, str | None]], unit_s: float) -> None:
    trace = Trace()
    for lane, category, start, length, other in sorted(spans, key=lambda row: row[2] + row[3]):
        facts = {} if other is None else {"worker": other, "server": "ps:0"}
        trace.span(lane, category, "x", start * unit_s, (start + length) * unit_s, **facts)
    path = trace.critical_path()
    check_tiling(path)
    assert path.end_s <= trace.end_s()
    assert path == trace.critical_path()


def test_summary_says_what_the_path_is_made_of() -> None:
    trace = queue_of_workers(2, compute_s=1.0, latency_s=0.25, apply_s=0.25)
    numbers = trace.summary()["critical_path"]
    assert numbers == {"end_s": 2.0, "waited_s": 0.0, "segments": 5, "seconds": {"compute": 1.0, "apply": 0.5, "update": 0.5}}
    assert "critical path: compute 50.0 %, apply 25.0 %, update 25.0 %, in 5 segments" in format_summary(trace.summary())
