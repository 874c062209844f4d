"""The critical path: hand-made runs whose longest chain is known, and the tiling that every path must have."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
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


def chain(trace: Trace, *spans: tuple[str, str, float, float], cause: int = -1) -> int:
    """Spans of which each waits for the one before; returns the number of the last."""
    for lane, category, start_s, end_s in spans:
        cause = trace.span(lane, category, category, start_s, end_s, cause=cause)
    return cause


def test_a_path_shows_its_seconds_by_category_however_many_parts_it_has() -> None:
    trace = Trace()
    chain(trace, ("worker:0", "read", 0.5, 1.0), *[("worker:0", "compute", 1.0 + second, 2.0 + second) for second in range(100)])
    assert repr(trace.critical_path()) == "CriticalPath(to 101 s: compute 100 s, read 0.5 s, waits 0.5 s)"
    assert repr(Trace().critical_path()) == "CriticalPath(to 0 s: waits 0 s)"


def test_one_lane_is_its_own_path_with_its_gaps() -> None:
    trace = Trace()
    chain(trace, ("worker:0", "input", 0.5, 1.0), ("worker:0", "compute", 1.0, 3.0), ("worker:0", "update", 3.25, 4.0))
    path = trace.critical_path()
    assert [(part.duration_s, part.waited_s) for part in path.segments] == [(0.5, 0.5), (2.0, 0.0), (0.75, 0.25)]
    assert (path.end_s, path.waited_s) == (4.0, 0.75)
    assert path.seconds == {"compute": 2.0, "update": 0.75, "input": 0.5}


def test_span_without_a_cause_ends_the_walk() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("worker:0", "compute", "step", 1.0, 3.0)
    assert on_path(trace) == [("worker:0", "compute", 1.0, 3.0)]
    assert trace.critical_path().waited_s == 1.0


def test_message_that_ended_before_its_apply_is_no_part_of_the_wait() -> None:
    trace = Trace()
    trace.span("worker:1", "compute", "step", 0.0, 1.0)
    compute = trace.span("worker:0", "compute", "step", 0.0, 2.0)
    trace.span("worker:0", "update", "update", 2.0, 2.5, cause=compute)
    trace.span("ps:0", "apply", "sgd", 3.0, 4.0, cause=compute)
    assert on_path(trace) == [("worker:0", "compute", 0.0, 2.0), ("ps:0", "apply", 3.0, 4.0)]
    assert trace.critical_path().waited_s == 1.0


def test_update_that_waits_for_two_servers_goes_through_the_slower_one() -> None:
    trace = Trace()
    compute = trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 1.25, 1.5, cause=compute)
    slower = trace.span("ps:1", "apply", "sgd", 1.25, 3.0, cause=compute)
    trace.span("worker:0", "update", "update", 1.0, 3.25, cause=slower)
    assert on_path(trace) == [
        ("worker:0", "compute", 0.0, 1.0),
        ("worker:0", "update", 1.0, 1.25),  # the message
        ("ps:1", "apply", 1.25, 3.0),
        ("worker:0", "update", 3.0, 3.25),  # the confirmation
    ]


def queue_of_workers(workers: int, compute_s: float, latency_s: float, apply_s: float) -> Trace:
    """All workers send to one server at once, which applies one update after the other."""
    trace = Trace()
    causes = [trace.span(f"worker:{worker}", "compute", "step", 0.0, compute_s) for worker in range(workers)]
    before = causes[0]
    for worker in range(workers):
        start_s = compute_s + latency_s + worker * apply_s
        before = trace.span("ps:0", "apply", "sgd", start_s, start_s + apply_s, cause=before)
        trace.span(f"worker:{worker}", "update", "update", compute_s, start_s + apply_s + latency_s, cause=before)
    return trace


def test_busy_server_is_the_cause_in_closed_form() -> None:
    path = queue_of_workers(5, compute_s=1.0, latency_s=0.125, apply_s=0.5).critical_path()
    assert path.end_s == 1.0 + 2 * 0.125 + 5 * 0.5
    assert path.seconds == {"apply": 5 * 0.5, "compute": 1.0, "update": 2 * 0.125}
    assert path.waited_s == 0.0
    assert path.segments[0].span.lane == "worker:0", "the first in the queue began the chain"


def test_message_of_another_worker_is_on_the_path_where_a_busy_server_was_its_effect() -> None:
    """The server was kept by worker:1, whose own message had been on its way before."""
    trace = Trace()
    first = trace.span("worker:1", "compute", "step", 0.0, 1.0)
    second = trace.span("worker:0", "compute", "step", 0.0, 1.5)
    kept = trace.span("ps:0", "apply", "sgd", 2.0, 4.0, cause=first)
    trace.span("worker:1", "update", "update", 1.0, 5.0, cause=kept)
    apply = trace.span("ps:0", "apply", "sgd", 4.0, 4.5, cause=kept)
    trace.span("worker:0", "update", "update", 1.5, 5.5, cause=apply)
    assert second >= 0
    assert on_path(trace) == [
        ("worker:1", "compute", 0.0, 1.0),
        ("worker:1", "update", 1.0, 2.0),
        ("ps:0", "apply", 2.0, 4.0),
        ("ps:0", "apply", 4.0, 4.5),
        ("worker:0", "update", 4.5, 5.5),
    ]


def test_collective_is_caused_by_the_last_participant() -> None:
    trace = Trace()
    computes = [trace.span(f"worker:{worker}", "compute", "step", 0.0, end_s) for worker, end_s in enumerate((1.0, 3.0, 2.0))]
    over = [trace.span(f"worker:{worker}", "collective", "ring", 3.0, 4.0, cause=computes[1]) for worker in range(3)]
    trace.span("worker:0", "compute", "step", 4.0, 5.0, cause=over[0])
    assert on_path(trace) == [
        ("worker:1", "compute", 0.0, 3.0),
        ("worker:0", "collective", 3.0, 4.0),
        ("worker:0", "compute", 4.0, 5.0),
    ]


@pytest.mark.parametrize("before_s", [0.0, 0.5])
def test_gradients_that_travel_early_come_from_the_kernel_of_the_last_participant(before_s: float) -> None:
    trace = Trace()
    # All begin the step when the last one has ended the one before.
    cause = trace.span("worker:0/gpu:0", "apply", "sgd", 0.0, before_s) if before_s else -1
    slow_s, early_s, over_s = before_s + 3.0, before_s + 2.25, before_s + 3.25
    trace.span("worker:0/gpu:0", "compute", "step", before_s, before_s + 2.0, cause=cause)
    trace.span("worker:0/gpu:1", "compute", "step", before_s, slow_s, cause=cause)
    first, _ = [trace.span(f"worker:0/gpu:{i}/network", "collective", "ring", early_s, over_s, cause=cause) for i in range(2)]
    waited = trace.span("worker:0/gpu:0", "wait", "wait for ring", before_s + 2.0, over_s, cause=first)
    trace.span("worker:0/gpu:0", "apply", "sgd", over_s, over_s + 1.0, cause=waited)
    path = trace.critical_path()
    check_tiling(path)
    assert path.waited_s == 0.0
    assert ("worker:0/gpu:1", "compute", before_s, early_s) in on_path(trace)


def test_what_a_device_made_is_sent_by_its_task() -> None:
    trace = Trace()
    copy = trace.span("worker:0/gpu:0", "update", "update", 0.0, 1.0)
    apply = trace.span("ps:0", "apply", "sgd", 1.5, 2.0, cause=copy)
    trace.span("worker:0", "update", "update", 1.0, 2.5, cause=apply)
    assert [part.waited_s for part in trace.critical_path().segments] == [0.0] * 4


def test_closure_stands_for_itself_only_without_parts() -> None:
    trace = Trace()
    compute = trace.span("worker:0", "compute", "step", 0.0, 1.0)
    closure = trace.span("worker:0", "closure", "closure 0", 0.0, 1.0, cause=compute)
    trace.span("worker:0", "closure", "closure 1", 2.0, 3.0, cause=closure)
    assert on_path(trace) == [("worker:0", "compute", 0.0, 1.0), ("worker:0", "closure", 2.0, 3.0)]


def test_closure_that_was_dropped_decides_nothing() -> None:
    trace = Trace()
    compute = trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("worker:0", "dropped", "closure 1", 1.0, 4.0)
    assert on_path(trace) == [("worker:0", "compute", 0.0, 1.0)]
    trace.span("ps:0", "apply", "sgd", 2.0, 3.0, cause=compute)
    assert on_path(trace) == [("worker:0", "compute", 0.0, 1.0), ("ps:0", "apply", 2.0, 3.0)]


def test_closure_that_was_dropped_is_on_the_path_where_the_next_one_waited_for_its_function() -> None:
    trace = Trace()
    dropped = trace.span("worker:0", "dropped", "closure 0", 0.0, 2.0)
    trace.span("worker:0", "closure", "closure 1", 2.0, 3.0, cause=dropped)
    assert on_path(trace) == [("worker:0", "dropped", 0.0, 2.0), ("worker:0", "closure", 2.0, 3.0)]


def test_down_time_is_on_the_path_and_instants_lead_through() -> None:
    trace = Trace()
    compute = trace.span("worker:0", "compute", "step", 0.0, 1.0)
    crash = trace.instant("worker:0", "crash", "crash of worker:0", 1.5, cause=compute)
    down = trace.span("worker:0", "down", "down", 1.5, 4.0, cause=crash)
    trace.span("worker:0", "compute", "step", 4.0, 5.0, cause=down)
    assert trace.critical_path().seconds == {"down": 2.5, "compute": 2.0}
    assert trace.critical_path().waited_s == 0.5


@pytest.mark.parametrize("lane", ["worker:0", "worker:0/gpu:1"])
def test_before_a_fault_comes_what_its_task_did_last(lane: str) -> None:
    trace = Trace()
    compute = trace.span(lane, "compute", "step", 0.0, 1.0)
    trace.span("worker:00", "compute", "step", 0.0, 1.25)
    crash = trace.instant("worker:0", "crash", "crash of worker:0", 1.5)
    trace.span("worker:0", "input", "recorded later", 0.5, 1.0, cause=compute)
    detect = trace.instant("worker:0", "detect", "worker:0 is down", 2.0, cause=crash)
    down = trace.span("worker:0", "down", "down", 1.5, 4.0, cause=detect)
    trace.span("worker:0", "compute", "step", 4.0, 5.0, cause=down)
    assert on_path(trace) == [(lane, "compute", 0.0, 1.0), ("worker:0", "down", 1.5, 4.0), ("worker:0", "compute", 4.0, 5.0)]


def test_a_task_that_dies_again_and_again_has_all_its_work_and_down_times_on_the_path() -> None:
    trace = Trace()
    expected: list[tuple[str, str, float, float]] = []
    down = -1
    for start_s in range(0, 12, 3):
        trace.span("worker:1", "compute", "step", start_s, start_s + 1.5)
        trace.span("worker:0", "compute", "step", start_s, start_s + 2.0, cause=down)
        trace.span("worker:1", "compute", "step", start_s + 1.5, start_s + 2.5)
        crash = trace.instant("worker:0", "crash", "crash of worker:0", start_s + 2.0)
        down = trace.span("worker:0", "down", "down", start_s + 2.0, start_s + 3.0, cause=crash)
        expected += [("worker:0", "compute", start_s, start_s + 2.0), ("worker:0", "down", start_s + 2.0, start_s + 3.0)]
    assert on_path(trace) == expected


def test_fault_of_a_task_that_had_done_nothing_ends_the_walk() -> None:
    trace = Trace()
    trace.span("worker:1", "compute", "step", 0.0, 1.0)
    crash = trace.instant("worker:0", "crash", "crash of worker:0", 1.5)
    trace.span("worker:0", "down", "down", 1.5, 4.0, cause=crash)
    assert on_path(trace) == [("worker:0", "down", 1.5, 4.0)]


def test_cause_that_was_recorded_later_is_not_followed() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0, cause=7)
    trace.instant("worker:0", "crash", "crash of worker:0", 1.0, cause=1)
    trace.span("worker:0", "compute", "step", 1.0, 2.0, cause=1)
    assert on_path(trace) == [("worker:0", "compute", 1.0, 2.0)]


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
rows = st.lists(st.tuples(lanes, categories, st.integers(0, 20), st.integers(0, 5), st.integers(-1, 30), st.booleans()))


@given(rows, st.sampled_from([1.0, 0.1, 1 / 3]))
def test_every_path_tiles_the_run(spans: list[tuple[str, str, int, int, int, bool]], unit_s: float) -> None:
    trace = Trace()
    for lane, category, start, length, cause, instant in sorted(spans, key=lambda row: row[2] + row[3]):
        if instant:
            trace.instant(lane, "crash", "crash", start * unit_s, cause=cause)
        trace.span(lane, category, "x", start * unit_s, (start + length) * unit_s, cause=cause)
    path = trace.critical_path()
    check_tiling(path)
    assert path.end_s <= trace.end_s()
    assert path == trace.critical_path()


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_path_of_a_run_explains_all_but_the_closures_on_their_way(workers: int) -> None:
    """Every gap of an asynchronous run is a reply and the next closure: twice the latency between chief and worker."""
    cluster = sd.Cluster({"worker": workers, "ps": 2}, numerics="off")
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        w, b = sd.Variable(np.zeros((10, 1), np.float32), name="w"), sd.Variable(np.zeros(1, np.float32), name="b")

    @sd.function
    def step() -> None:
        w.assign_add(w.value * 0.5)
        b.assign_add(b.value * 0.5)

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(5 * workers):
        coordinator.schedule(step)
    coordinator.join()
    path = cluster.trace.critical_path()
    check_tiling(path)
    assert path.end_s == cluster.trace.spans[-1].end_s
    assert {round(part.waited_s, 12) for part in path.segments} == {0.0, 5e-5, 1e-4}
    assert path.seconds.keys() == {"read", "compute", "update", "apply"}


def closures_around_a_crash(pause_s: float) -> sd.Cluster:
    """Closures on one worker, which crashes after the first of them and is down for a second; the others come after a pause."""
    cluster = sd.Cluster({"worker": 1, "ps": 1}, numerics="off")
    cluster.faults.crash("worker:0", at=0.0005, restart_after=1.0)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        w = sd.Variable(np.zeros((10, 1), np.float32), name="w")

    @sd.function
    def step() -> None:
        w.assign_add(w.value * 0.5)

    coordinator = sd.ClusterCoordinator(strategy)
    for closures in (1, 2):
        for _ in range(closures):
            coordinator.schedule(step)
        coordinator.join()
        sd.sleep(pause_s, cluster)
    return cluster


def test_closure_that_waited_for_its_worker_has_the_down_time_on_its_path() -> None:
    path = closures_around_a_crash(pause_s=0.0).trace.critical_path()
    check_tiling(path)
    assert path.seconds["down"] == pytest.approx(1.0, rel=1e-12)
    assert path.segments[0].start_s < 1e-4  # the walk goes on before the crash
    assert path.waited_s < 0.001


def test_closure_that_came_after_the_restart_has_not_waited_for_it() -> None:
    assert "down" not in closures_around_a_crash(pause_s=2.0).trace.critical_path().seconds


def test_summary_says_what_the_path_is_made_of() -> None:
    trace = queue_of_workers(2, compute_s=1.0, latency_s=0.25, apply_s=0.25)
    numbers = trace.summary()["critical_path"]
    assert numbers == {"end_s": 2.0, "waited_s": 0.0, "segments": 5, "seconds": {"compute": 1.0, "apply": 0.5, "update": 0.5}}
    assert "critical path: compute 50.0 %, apply 25.0 %, update 25.0 %, in 5 segments" in format_summary(trace.summary())


@pytest.mark.parametrize("lane", ["", "/", "/z"])
def test_a_lane_without_a_task_ends_the_search_for_what_it_did(lane: str) -> None:
    trace = Trace()
    chain(trace, (lane, "compute", 0.0, 1.0), ("worker:0", "compute", 2.0, 3.0))
    trace.span("", "compute", "other", 0.0, 0.5)
    check_tiling(trace.critical_path())
