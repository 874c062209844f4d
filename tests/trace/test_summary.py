"""The summary: busy time, counts, bytes, failures and their recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from simdist.trace import Trace, format_summary


def only_failure(trace: Trace) -> dict[str, Any]:
    (failure,) = trace.summary()["failures"]
    return failure


def test_overlapping_spans_are_counted_once() -> None:
    trace = Trace()
    trace.span("worker:0", "read", "a", 0.0, 2.0)
    trace.span("worker:0", "compute", "b", 1.0, 3.0)
    trace.span("worker:0", "update", "c", 3.5, 4.0)
    lane = trace.summary()["lanes"]["worker:0"]
    assert (lane["busy_s"], lane["utilisation"]) == (3.5, 0.875)
    assert lane["seconds"] == {"compute": 2.0, "read": 2.0, "update": 0.5}


def test_closures_and_down_time_are_no_work() -> None:
    trace = Trace()
    trace.span("worker:0", "dropped", "closure 7", 0.0, 4.0)
    trace.span("worker:0", "compute", "step", 1.0, 2.0)
    trace.span("worker:0", "closure", "closure 0", 0.0, 4.0)
    trace.span("worker:0", "down", "down", 4.0, 8.0)
    lane = trace.summary()["lanes"]["worker:0"]
    assert (lane["busy_s"], lane["seconds"]["down"], lane["seconds"]["closure"]) == (1.0, 4.0, 4.0)


intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=12)


@given(intervals)
def test_busy_time_is_the_measure_of_the_union(rows: list[tuple[int, int]]) -> None:
    trace = Trace()
    covered = np.zeros(50, bool)
    for start, length in rows:
        trace.span("a", "compute", "step", float(start), float(start + length))
        covered[start : start + length] = True
    assert sum(lane["busy_s"] for lane in trace.summary()["lanes"].values()) == covered.sum()


def test_counts_are_by_category() -> None:
    trace = Trace()
    for _ in range(3):
        trace.span("a", "compute", "step", 0.0, 1.0)
    trace.span("a", "apply", "sgd", 0.0, 1.0)
    trace.instant("a", "fault", "slow", 0.0)
    numbers = trace.summary()
    assert (numbers["spans"], numbers["instants"]) == ({"apply": 1, "compute": 3}, {"fault": 1})


def test_lanes_come_in_declared_order_then_as_they_appear() -> None:
    trace = Trace()
    trace.declare_lane("ps:0")
    trace.span("worker:1", "compute", "step", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 0.0, 1.0)
    trace.total("chief", "bytes_sent", 5)
    assert list(trace.summary()["lanes"]) == ["ps:0", "worker:1", "chief"]


def test_bytes_are_by_lane() -> None:
    trace = Trace()
    trace.total("ps:0", "bytes_sent", 8.0)
    trace.total("ps:0", "updates", 3)
    trace.declare_lane("ps:1")
    lanes = trace.summary()["lanes"]
    assert (lanes["ps:0"]["bytes_sent"], lanes["ps:1"]["bytes_sent"]) == (8, 0)


def test_failure_is_followed_to_its_restart() -> None:
    trace = Trace()
    trace.instant("worker:1", "crash", "crash", 1.0)
    trace.instant("worker:2", "detect", "of another", 1.25)
    trace.instant("worker:1", "detect", "detected", 1.5)
    trace.instant("chief", "retry", "closure 3", 1.5, task="worker:1")
    trace.instant("chief", "retry", "closure 4", 1.5, task="worker:2")
    trace.instant("worker:1", "restart", "restarted", 3.0)
    trace.instant("chief", "retry", "closure 5", 3.5, task="worker:1")
    assert only_failure(trace) == {
        "task": "worker:1",
        "time_s": 1.0,
        "detected_s": 1.5,
        "restarted_s": 3.0,
        "recovery_s": 2.0,
        "retried_closures": 1,
        "rolled_back_updates": 0,
    }


def test_updates_that_a_server_rolls_back_count_for_its_crash() -> None:
    trace = Trace()
    trace.instant("ps:0", "crash", "crash", 1.0)
    trace.instant("ps:1", "rollback", "of another server", 1.5, variables="b", version=2, updates=1)
    trace.instant("ps:0", "rollback", "3 updates rolled back", 2.0, variables="a", version=4, updates=3)
    trace.instant("ps:0", "rollback", "1 updates rolled back", 2.0, variables="c", version=6, updates=1)
    trace.instant("ps:0", "restart", "restart", 2.5)
    trace.instant("ps:0", "crash", "crash", 3.0)
    trace.instant("ps:0", "rollback", "2 updates rolled back", 4.0, variables="a", version=8, updates=2)
    assert [failure["rolled_back_updates"] for failure in trace.summary()["failures"]] == [4, 2]
    header, first, second = format_summary(trace.summary()).splitlines()[-3:]
    assert (header.split()[-1], first.split()[-1], second.split()[-1]) == ("rolled_back_updates", "4", "2")


def test_retry_that_names_no_task_counts_for_the_failure_of_its_lane() -> None:
    trace = Trace()
    trace.instant("worker:1", "retry", "before", 0.5)
    trace.instant("worker:1", "crash", "crash", 1.0)
    trace.instant("worker:1", "retry", "closure 3", 1.5)
    trace.instant("worker:0", "retry", "of another worker", 1.5)
    assert only_failure(trace)["retried_closures"] == 1


def test_failure_that_was_never_repaired_has_no_recovery() -> None:
    trace = Trace()
    trace.instant("ps:0", "restart", "an earlier one", 0.0)
    trace.instant("ps:0", "crash", "crash", 0.0)
    failure = only_failure(trace)
    assert (failure["detected_s"], failure["restarted_s"], failure["recovery_s"]) == (None, None, None)


def test_crash_after_a_restart_ends_the_story_of_the_first() -> None:
    trace = Trace()
    trace.instant("worker:0", "crash", "first", 1.0)
    trace.instant("worker:0", "restart", "restarted", 1.5)
    trace.instant("worker:0", "crash", "second", 2.0)
    trace.instant("worker:0", "detect", "detected", 2.5)
    trace.instant("worker:0", "restart", "restarted", 3.0)
    first, second = trace.summary()["failures"]
    assert (first["detected_s"], first["recovery_s"]) == (None, 0.5)
    assert (second["detected_s"], second["recovery_s"]) == (2.5, 1.0)


def test_crash_of_a_task_that_is_down_belongs_to_the_story_of_the_first() -> None:
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:1", at=1.0, restart_after=5.0)
    cluster.faults.crash("worker:1", at=2.0, restart_after=5.0)
    sd.sleep(10.0, cluster)
    failure, down_s = only_failure(cluster.trace), cluster.trace.summary()["lanes"]["worker:1"]["seconds"]["down"]
    assert (failure["time_s"], failure["restarted_s"], failure["recovery_s"]) == (1.0, 7.0, 6.0) and down_s == 6.0


def test_empty_trace_has_a_summary_and_a_text() -> None:
    numbers = Trace(seed=4).summary()
    assert (numbers["duration_s"], numbers["lanes"], numbers["failures"]) == (0.0, {}, [])
    assert format_summary(numbers) == "0.000000 virtual seconds, seed 4\nspans: none\ninstants: none"


def test_instant_at_time_zero_does_not_divide_by_zero() -> None:
    trace = Trace()
    trace.instant("worker:0", "fault", "slow", 0.0)
    assert trace.summary()["lanes"]["worker:0"]["utilisation"] == 0.0


@pytest.fixture
def text() -> str:
    trace = Trace(seed=1)
    trace.span("worker:0", "compute", "step", 0.0, 3.0)
    trace.span("worker:10", "read", "pull", 0.0, 1.5)
    trace.total("worker:0", "bytes_sent", 1234567)
    trace.instant("worker:10", "crash", "crash", 1.5)
    return format_summary(trace.summary())


def test_text_is_aligned(text: str) -> None:
    assert text.splitlines() == [
        "3.000000 virtual seconds, seed 1",
        "spans: compute 1, read 1",
        "instants: crash 1",
        "",
        "lane       busy_s    busy     bytes_sent  compute_s  down_s    read_s",
        "worker:0   3.000000  100.0 %  1,234,567   3.000000   -         -",
        "worker:10  1.500000  50.0 %   0           -          1.500000  1.500000",
        "",
        "devices computed: worker:0 100.0 %",
        "critical path: compute 100.0 %, in 1 segment",
        "",
        "crashed    time_s    detected_s  restarted_s  recovery_s  retried_closures",
        "worker:10  1.500000  -           -            -           0",
    ]


def test_utilisation_of_a_task_is_what_its_devices_computed() -> None:
    trace = Trace()
    trace.span("worker:0/gpu:0", "compute", "step", 0.0, 1.0)
    trace.span("worker:0/gpu:1", "compute", "step", 0.0, 3.0)
    trace.span("worker:0", "read", "read", 3.0, 4.0)
    trace.span("ps:0", "apply", "sgd", 1.0, 2.0)
    trace.span("ps:0", "apply", "sgd", 1.5, 2.5)
    trace.total("worker:0/gpu:0", "bytes_sent", 3)
    trace.total("worker:0", "bytes_sent", 4)
    assert trace.summary()["tasks"] == {
        "worker:0": {"utilisation": 0.5, "bytes_sent": 7},
        "ps:0": {"utilisation": 0.375, "bytes_sent": 0},
    }


def test_bytes_by_link_come_from_their_totals() -> None:
    trace = Trace()
    trace.total("ps:0 -> worker:0", "link_bytes", 2048)
    trace.total("ps:0", "bytes_sent", 2048)
    assert trace.summary()["links"] == {"ps:0 -> worker:0": 2048}
    assert "bytes by link: ps:0 -> worker:0 2,048" in format_summary(trace.summary())


def test_text_has_whole_bytes() -> None:
    trace = Trace()
    trace.span("ps:0", "apply", "sgd", 0.0, 1.0)
    for name in ("bytes_sent", "link_bytes"):
        for lane in ("ps:0",) if name == "bytes_sent" else ("ps:0/in", "ps:0/out"):
            trace.total(lane, name, 24000 / 7)
    lines = format_summary(trace.summary()).splitlines()
    rows = [line.split() for line in lines if line.startswith("ps:0")]
    assert "3,429" in rows[0] and rows[1][-2:] == ["3,429", "3,429"]
    assert "bytes by link: ps:0/in 3,429, ps:0/out 3,429" in lines


def test_queue_is_weighted_with_time() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 5.0)
    for time_s, length in ((1.0, 4), (1.0, 6), (2.0, 0), (4.0, 3)):
        trace.counter("chief:0", "queue", time_s, length)
    assert trace.summary()["queues"] == {"chief:0": {"mean": (6 * 1 + 0 * 2 + 3 * 1) / 4, "max": 6.0}}
    assert "queue of chief:0: mean 2.25, largest 6" in format_summary(trace.summary())


def test_queue_that_was_sampled_once_at_the_end_has_that_length() -> None:
    trace = Trace()
    trace.counter("chief:0", "queue", 1.0, 2.0)
    assert trace.summary()["queues"] == {"chief:0": {"mean": 2.0, "max": 2.0}}


def test_report_of_a_large_cluster_names_the_busiest_and_counts_the_others() -> None:
    trace = Trace()
    for number in range(40):
        trace.span(f"worker:{number}", "compute", "step", 0.0, 1.0 + number)
    line = next(line for line in format_summary(trace.summary()).splitlines() if line.startswith("devices computed"))
    assert line.count("%") == 16
    assert "worker:39 100.0 %" in line and "worker:0 " not in line
    assert line.endswith("and 24 others")


def test_a_lane_that_waits_is_not_busy() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("worker:0", "wait", "for all_reduce", 1.0, 3.0)
    trace.span("worker:0", "input", "wait for input", 3.0, 4.0)
    lane = trace.summary()["lanes"]["worker:0"]
    assert (lane["busy_s"], lane["utilisation"], lane["seconds"]) == (1.0, 0.25, {"compute": 1.0, "input": 1.0, "wait": 2.0})
