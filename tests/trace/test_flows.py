"""What led to what, and the arrows that Perfetto draws for it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.trace import Trace
from simdist.trace.flows import flows_between_lanes, flows_of_instants
from simdist.trace.perfetto import events


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    compute = trace.span("worker:0", "compute", "step", 0.0, 1.0)
    first = trace.span("ps:0", "apply", "sgd", 1.2, 1.4, cause=compute)
    second = trace.span("ps:1", "apply", "sgd", 1.2, 1.5, cause=compute)
    update = trace.span("worker:0", "update", "update", 1.0, 1.75, cause=second)
    trace.span("worker:0", "closure", "closure 0", 0.0, 1.75, cause=update)
    crash = trace.instant("worker:0", "crash", "crash of worker:0", 2.0)
    trace.instant("worker:1", "place", "w", 2.0)
    detect = trace.instant("worker:0", "detect", "worker:0 is down", 2.5, cause=crash)
    retry = trace.instant("worker:0", "retry", "closure 0 is run again", 2.5, cause=detect)
    trace.span("worker:0", "down", "down", 2.0, 4.0, cause=crash)
    trace.instant("worker:0", "restart", "restart of worker:0", 4.0, cause=detect)
    assert min(first, second, update, retry) >= 0
    return trace


def test_arrows_lead_to_other_lanes_and_forward_in_time(trace: Trace) -> None:
    assert flows_between_lanes(trace) == [(0, 1), (0, 2)]


def test_crash_leads_to_detection_and_detection_to_retry_and_restart(trace: Trace) -> None:
    assert flows_of_instants(trace) == [(0, 2), (2, 3), (2, 4)]


def test_second_crash_begins_a_chain_of_its_own(trace: Trace) -> None:
    crash = trace.instant("worker:0", "crash", "crash of worker:0", 5.0)
    trace.instant("worker:0", "detect", "worker:0 is down", 5.5, cause=crash)
    assert flows_of_instants(trace)[3:] == [(5, 6)]


def test_recovery_of_a_run_is_one_chain() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, numerics="off")
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        w = sd.Variable(np.zeros((10, 1), np.float32), name="w")

    @sd.function
    def step() -> None:
        w.assign_add(w.value * 0.5)

    coordinator = sd.ClusterCoordinator(strategy)
    cluster.faults.crash("worker:1", after_steps=3, restart_after=0.5)
    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    sd_trace = cluster.trace
    story = [(sd_trace.instants[cause].category, sd_trace.instants[effect].category) for cause, effect in flows_of_instants(sd_trace)]
    assert ("crash", "detect") in story
    assert ("detect", "retry") in story


def test_what_happens_on_a_task_that_is_down_is_no_cause_of_its_return() -> None:
    cluster = sd.Cluster({"worker": 3})
    cluster.faults.crash("worker:1", at=1.0, restart_after=5.0)
    cluster.faults.partition("worker:1", "worker:2", at=2.0, until=3.0)
    sd.sleep(10.0, cluster)
    instants = cluster.trace.instants
    story = [(instants[cause].category, instants[effect].category) for cause, effect in flows_of_instants(cluster.trace)]
    assert story == [("crash", "restart")]


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
        ("compute", "apply"),
        ("compute", "apply"),
        ("down", "detect"),
        ("detect", "retry"),
        ("detect", "restart"),
    ]


def test_arrows_have_the_time_and_place_of_their_records(trace: Trace) -> None:
    rows = list(events(trace))
    applies = {(row["pid"], row["tid"], row["ts"]) for row in rows if row.get("cat") == "apply"}
    heads = {(row["pid"], row["tid"], row["ts"]) for row in rows if row["ph"] == "f" and row["name"] == "cause"}
    assert heads == applies


def test_trace_without_causes_has_no_arrows() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    assert not [row for row in events(trace) if row["ph"] in "sf"]
