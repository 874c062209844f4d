"""Staleness: counted by hand, by a naive reference, and as the program itself says it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simdist.trace import Trace, format_summary
from simdist.trace.staleness import stale_updates


def in_turn(workers: int, rounds: int) -> Trace:
    """All workers read at once, then the server applies their updates one after the other."""
    trace = Trace()
    for number in range(rounds):
        began_s = number * (workers + 1.0)
        for worker in range(workers):
            trace.span(f"worker:{worker}", "read", "read", began_s, began_s + 1.0)
        for worker in range(workers):
            trace.span("ps:0", "apply", "sgd", began_s + 1.0 + worker, began_s + 2.0 + worker, worker=f"worker:{worker}")
    return trace


def test_workers_in_turn_miss_those_before_them() -> None:
    assert stale_updates(in_turn(4, rounds=3)).staleness.tolist() == [0, 1, 2, 3] * 3


def test_one_worker_is_never_stale() -> None:
    assert stale_updates(in_turn(1, rounds=5)).staleness.tolist() == [0] * 5


def test_servers_count_their_own_updates() -> None:
    trace = Trace()
    trace.span("worker:0", "read", "read", 0.0, 1.0)
    trace.span("worker:1", "read", "read", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 2.0, 3.0, worker="worker:0")
    trace.span("ps:1", "apply", "sgd", 3.0, 4.0, worker="worker:1")
    assert stale_updates(trace).staleness.tolist() == [0, 0]


def test_version_that_was_read_is_believed() -> None:
    trace = Trace()
    trace.span("ps:0", "apply", "sgd", 2.0, 3.0, worker="worker:0", version=8, read_version=5)
    trace.span("ps:0", "apply", "sgd", 3.0, 4.0, worker="worker:0", read_version=5)
    updates = stale_updates(trace)
    assert (updates.row.tolist(), updates.staleness.tolist(), updates.end_s.tolist()) == ([0], [2], [3.0])


def test_update_of_a_version_is_blind_if_it_names_none_that_was_read() -> None:
    trace = Trace()
    trace.span("worker:0", "read", "read", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 1.0, 2.0, worker="worker:0", version=1, read_version=0)
    trace.span("ps:0", "apply", "count", 2.0, 3.0, worker="worker:0", version=1)
    trace.span("ps:0", "apply", "sgd", 3.0, 4.0, worker="worker:0", read_version=1)
    assert stale_updates(trace).row.tolist() == [1]


def test_update_without_a_read_is_not_counted() -> None:
    trace = Trace()
    trace.span("ps:0", "apply", "sgd", 0.0, 1.0, worker="worker:0")
    trace.span("worker:0", "read", "read", 0.5, 1.5)
    trace.span("ps:0", "apply", "sgd", 1.0, 2.0)
    assert stale_updates(trace).staleness.tolist() == []
    assert trace.summary()["staleness"] == {"updates": 0, "mean": None, "max": None, "histogram": {}}


workers = st.sampled_from(["worker:0", "worker:1"])
rows = st.lists(st.tuples(st.sampled_from(["read", "ps:0", "ps:1"]), workers, st.integers(0, 3)), max_size=30)


@given(rows)
def test_staleness_equals_counting_one_by_one(script: list[tuple[str, str, int]]) -> None:
    trace = Trace()
    now_s = 0.0
    for what, worker, length in script:
        end_s = now_s + length
        if what == "read":
            trace.span(worker, "read", "read", now_s, end_s)
        else:
            trace.span(what, "apply", "sgd", now_s, end_s, worker=worker)
        now_s = end_s + 0.5
    expected: list[int] = []
    applies = trace.spans.where(category="apply")
    for update in applies:
        reads = trace.spans.where(lane=update.facts["worker"], category="read")
        ends_s = [read.end_s for read in reads if read.end_s <= update.start_s]
        if ends_s:
            before = (other for other in applies if other.lane == update.lane and other.end_s < update.end_s)
            expected.append(sum(other.end_s > max(ends_s) for other in before))
    assert stale_updates(trace).staleness.tolist() == expected


def test_summary_has_a_histogram() -> None:
    numbers = in_turn(3, rounds=2).summary()
    assert numbers["staleness"] == {"updates": 6, "mean": 1.0, "max": 2, "histogram": {0: 2, 1: 2, 2: 2}}
    assert "staleness of 6 updates: mean 1.00, largest 2 (0: 2, 1: 2, 2: 2)" in format_summary(numbers)
