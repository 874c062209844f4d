"""What led to what, and the arrows that Perfetto draws for it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from simdist.trace import Trace
from simdist.trace.flows import recovery_flows, update_flows
from simdist.trace.perfetto import events


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 1.2, 1.4, worker="worker:0")
    trace.span("ps:1", "apply", "sgd", 1.2, 1.5, worker="worker:0")
    trace.span("worker:0", "update", "update", 1.0, 1.75)
    trace.span("worker:0", "closure", "closure 0", 0.0, 1.75)
    trace.span("worker:0", "down", "down", 2.0, 4.0)
    trace.instant("worker:0", "crash", "crash of worker:0", 2.0)
    trace.instant("worker:1", "place", "w", 2.0)
    trace.instant("worker:0", "detect", "worker:0 is down", 2.5)
    trace.instant("worker:0", "retry", "closure 0 is run again", 2.5)
    trace.instant("worker:0", "restart", "restart of worker:0", 4.0)
    return trace


def test_update_leads_to_every_apply_of_it(trace: Trace) -> None:
    assert update_flows(trace) == [(3, 1), (3, 2)]


def test_update_that_was_over_leads_to_a_late_apply() -> None:
    trace = Trace()
    trace.span("worker:0", "update", "update", 0.0, 1.0)
    trace.span("ps:0", "apply", "sgd", 2.0, 3.0, worker="worker:0")
    assert update_flows(trace) == [(0, 1)]


def test_apply_whose_update_never_ended_has_no_cause() -> None:
    trace = Trace()
    trace.span("worker:0", "update", "update", 0.0, 1.0)
    trace.span("worker:0", "compute", "step", 1.0, 2.0)
    trace.span("ps:0", "apply", "sgd", 2.5, 3.0, worker="worker:0")  # the worker crashed before it was confirmed
    trace.span("ps:0", "apply", "sgd", 2.5, 3.0, worker="worker:7")
    trace.span("ps:0", "apply", "sgd", 2.5, 3.0)
    assert update_flows(trace) == []


def test_crash_leads_to_detection_retry_and_restart(trace: Trace) -> None:
    assert recovery_flows(trace) == [(0, 2), (2, 3), (3, 4)]


def test_second_crash_begins_a_chain_of_its_own(trace: Trace) -> None:
    trace.instant("worker:0", "crash", "crash of worker:0", 5.0)
    trace.instant("worker:0", "detect", "worker:0 is down", 5.5)
    assert recovery_flows(trace) == [(0, 2), (2, 3), (3, 4), (5, 6)]


def bound(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Arrows as Perfetto's importer ties them: to the record that was read last on the thread of each end."""
    last: dict[int, str] = {}
    ends: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for row in sorted((row for row in rows if "ts" in row), key=lambda row: row["ts"]):
        if row["ph"] == "X" or (row["ph"] == "i" and row["s"] == "t"):
            last[row["tid"]] = row["cat"]
        elif row["ph"] in "sf":
            assert row["ph"] not in ends[row["name"], row["id"]], "an id is used once"
            assert row["ph"] == "s" or row["bp"] == "e"
            ends[row["name"], row["id"]][row["ph"]] = last[row["tid"]]
    assert all(list(pair) == ["s", "f"] for pair in ends.values()), "an arrow begins before it ends"
    return [(pair["s"], pair["f"]) for pair in ends.values()]


def test_arrows_are_tied_to_their_records(trace: Trace) -> None:
    assert bound(list(events(trace))) == [
        ("update", "apply"),
        ("update", "apply"),
        ("down", "detect"),
        ("detect", "retry"),
        ("retry", "restart"),
    ]


def test_arrows_have_the_time_and_place_of_their_records(trace: Trace) -> None:
    rows = list(events(trace))
    applies = {(row["pid"], row["tid"], row["ts"]) for row in rows if row.get("cat") == "apply"}
    heads = {(row["pid"], row["tid"], row["ts"]) for row in rows if row["ph"] == "f" and row["name"] == "update"}
    assert heads == applies


def test_trace_without_causes_has_no_arrows() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    assert not [row for row in events(trace) if row["ph"] in "sf"]
