"""Sums, unions and counts by key against loops over the keys; a whole summary against one that looks for each lane in turn."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from simdist.trace import Trace
from simdist.trace.by_key import count_until, sum_by_key, union_by_key
from simdist.trace.records import Instant, Span, task_of

intervals = st.lists(st.tuples(st.integers(0, 3), st.floats(-10, 10), st.floats(0, 5)), max_size=20)


def union_s(spans: list[tuple[float, float]]) -> float:
    """How long at least one of these intervals lasts: begun anew wherever nothing goes on."""
    parts: list[list[float]] = []
    for start_s, end_s in sorted(spans, key=lambda span: span[0]):
        if parts and start_s <= parts[-1][1]:
            parts[-1][1] = max(parts[-1][1], end_s)
        else:
            parts.append([start_s, end_s])
    return math.fsum(end_s - start_s for start_s, end_s in parts)


@given(intervals)
def test_sums_and_unions_are_those_of_each_key_alone(rows: list[tuple[int, float, float]]) -> None:
    keys = np.array([key for key, _, _ in rows], np.int64)
    start_s, lasted_s = (np.array([row[place] for row in rows], np.float64) for place in (1, 2))
    by_key = {key: [row for row in rows if row[0] == key] for key in sorted({row[0] for row in rows})}
    assert sum_by_key(keys, start_s) == {key: math.fsum(row[1] for row in own) for key, own in by_key.items()}
    unions = {key: union_s([(row[1], row[1] + row[2]) for row in own]) for key, own in by_key.items()}
    assert union_by_key(keys, start_s, start_s + lasted_s) == unions


moments = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, 2.0])), max_size=12)


@given(moments, moments)
def test_count_until_is_a_count(rows: list[tuple[int, float]], questions: list[tuple[int, float]]) -> None:
    columns = [np.array([row[place] for row in table], kind) for table in (rows, questions) for place, kind in ((0, int), (1, float))]
    expected = [sum(key == asked and time_s <= until_s for key, time_s in rows) for asked, until_s in questions]
    assert count_until(*columns).tolist() == expected


# -- a whole summary, lane by lane --------------------------------------------------------------------------------------------------


def down_since_s(instants: list[Instant], lane: str) -> float | None:
    """Since when a task is down that never came back."""
    since_s: float | None = None
    for item in sorted((item for item in instants if item.lane == lane), key=lambda item: item.time_s):
        if item.category in ("crash", "lose_host") and since_s is None:
            since_s = item.time_s
        elif item.category == "restart":
            since_s = None
    return since_s


def plain_lanes(trace: Trace) -> dict[str, Any]:
    """What a summary says of lanes and tasks, from the records themselves, with a look at all of them for each lane."""
    spans, end_s = list(trace.spans), trace.end_s()
    names = [*trace.lanes, *(span.lane for span in spans), *(item.lane for item in trace.instants)]
    names += [lane for lane, name in trace.totals if name == "bytes_sent"]
    lanes: dict[str, Any] = {}
    computed: dict[str, list[float]] = {}
    for lane in dict.fromkeys(names):
        own = [span for span in spans if span.lane == lane]
        busy_s = union_s([(span.start_s, span.end_s) for span in own if span.category not in ("closure", "down")])
        durations_s = [(span.category, span.duration_s) for span in own]
        if (since_s := down_since_s(list(trace.instants), lane)) is not None and since_s < end_s:
            durations_s.append(("down", end_s - since_s))
        categories = sorted({category for category, _ in durations_s})
        lanes[lane] = {
            "busy_s": busy_s,
            "utilisation": busy_s / end_s if end_s else 0.0,
            "seconds": {name: math.fsum(lasted_s for category, lasted_s in durations_s if category == name) for name in categories},
            "bytes_sent": trace.totals.get((lane, "bytes_sent"), 0),
        }
        if device_work := [(span.start_s, span.end_s) for span in own if span.category in ("compute", "apply")]:
            computed.setdefault(task_of(lane), []).append(union_s(device_work))
    shares = {task: math.fsum(parts) / len(parts) / end_s if end_s else 0.0 for task, parts in computed.items()}
    tasks = {task_of(lane): shares.get(task_of(lane), 0.0) for lane in lanes}
    return {"lanes": lanes, "tasks": tasks, "spans": dict(sorted(Counter(span.category for span in spans).items()))}


def plain_staleness(spans: list[Span]) -> dict[int, int]:
    """The histogram of a summary, from the records themselves."""
    found: list[int] = []
    for update in (span for span in spans if span.category == "apply"):
        facts = update.facts
        if "version" in facts and "read_version" in facts:
            found.append(facts["version"] - 1 - facts["read_version"])
        if "version" in facts or "read_version" in facts:
            continue
        reads_s = [span.end_s for span in spans if span.category == "read" and span.lane == str(facts.get("worker"))]
        until_s = [end_s for end_s in reads_s if end_s <= update.start_s]
        if until_s:
            others = [span.end_s for span in spans if span.category == "apply" and span.lane == update.lane]
            found.append(max(sorted(others).index(update.end_s) - sum(end_s <= max(until_s) for end_s in others), 0))
    return dict(sorted(Counter(found).items()))


def plain_failures(instants: list[Instant]) -> list[tuple[float | None, float | None, int]]:
    """When each crash was detected, when its task was back, and how many closures were run again."""
    found: list[tuple[float | None, float | None, int]] = []
    for row, crash in enumerate(instants):
        before = [
            item.category for item in instants[:row] if item.lane == crash.lane and item.category in ("crash", "lose_host", "restart")
        ]
        if crash.category not in ("crash", "lose_host") or before[-1:] in (["crash"], ["lose_host"]):
            continue
        detected_s, restarted_s, retries_s = None, None, list[float]()
        for item in instants[row + 1 :]:
            if item.lane == crash.lane and item.category in ("crash", "lose_host") and restarted_s is not None:
                break
            if item.lane == crash.lane and item.category == "detect" and detected_s is None:
                detected_s = item.time_s
            if item.lane == crash.lane and item.category == "restart" and restarted_s is None:
                restarted_s = item.time_s
            if item.category == "retry" and str(item.facts.get("task", item.lane)) == crash.lane:
                retries_s.append(item.time_s)
        until_s = math.inf if restarted_s is None else max(restarted_s, detected_s or 0.0)
        count = len([time_s for time_s in retries_s if time_s <= until_s])
        found.append((detected_s, restarted_s, count))
    return found


def assert_equal_to_the_plain_one(trace: Trace) -> None:
    numbers, plain = trace.summary(), plain_lanes(trace)
    assert list(numbers["lanes"].items()) == list(plain["lanes"].items())  # to the last bit, in the same order
    assert {task: row["utilisation"] for task, row in numbers["tasks"].items()} == plain["tasks"]
    assert list(numbers["spans"].items()) == list(plain["spans"].items())
    assert numbers["staleness"]["histogram"] == plain_staleness(list(trace.spans))
    failures = [(row["detected_s"], row["restarted_s"], row["retried_closures"]) for row in numbers["failures"]]
    assert failures == plain_failures(list(trace.instants))


def random_log(seed: int, in_order: bool = True) -> Trace:
    """A log of a few tasks and devices, with numbers that no sum keeps exact, distinct ends, and crashes."""
    dice, trace, now_s = random.Random(seed), Trace(), 0.0
    trace.declare_lane("ps:0")
    for number in range(dice.randrange(60)):
        now_s += dice.random() / 3
        time_s = now_s if in_order else dice.random()
        worker = dice.choice(["worker:0", "worker:1", "worker:1/gpu:0", "worker:1/gpu:1"])
        what = dice.choice(["read", "compute", "apply", "apply", "closure", "down", "crash", "lose_host", "detect", "restart", "retry"])
        if what == "apply":
            facts: dict[str, Any] = {"worker": worker} if dice.random() < 0.8 else {}
            facts |= dice.choice([{}, {"version": number + 1}, {"version": number + 1, "read_version": dice.randrange(number + 1)}])
            trace.span(dice.choice(["ps:0", "ps:1"]), what, "sgd", now_s, now_s + dice.random(), **facts)
        elif what in ("read", "compute", "closure", "down"):
            trace.span(worker, what, what, now_s, now_s + dice.random())
        else:
            named = what == "retry" and dice.random() < 0.6
            trace.instant(task_of(worker), what, what, time_s, **({"task": task_of(worker)} if named else {}))
    trace.total("worker:7", "bytes_sent", 3)
    return trace


@pytest.mark.parametrize("seed", range(12))
def test_summary_equals_the_one_that_looks_for_each_lane_in_turn(seed: int) -> None:
    assert_equal_to_the_plain_one(random_log(seed))
    assert_equal_to_the_plain_one(random_log(seed, in_order=False))


def trained(workers: int) -> Trace:
    """Workers on two servers, one of which crashes and comes back."""
    cluster = sd.Cluster({"worker": workers, "ps": 2}, numerics="off")
    cluster.faults.crash("worker:1", at=0.003, restart_after=0.002)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variables = [sd.Variable(np.zeros(1000, np.float32), name=name) for name in "ab"]

    @sd.function
    def step() -> None:
        for variable in variables:
            variable.assign_add(variable.value * 0.5)

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(60):
        coordinator.schedule(step)
    coordinator.join()
    return cluster.trace


def test_summary_of_a_run_equals_the_plain_one() -> None:
    trace = trained(workers=3)
    assert_equal_to_the_plain_one(trace)
    assert len(trace.summary()["failures"]) == 1 and len(trace.summary()["staleness"]["histogram"]) > 1


def test_closure_that_is_run_again_at_the_moment_of_the_restart_counts() -> None:
    trace = Trace()
    for number, (category, time_s) in enumerate([("crash", 1.0), ("restart", 2.0), ("retry", 2.0), ("retry", 2.5)]):
        trace.instant("worker:0", category, f"instant {number}", time_s)
    assert trace.summary()["failures"][0]["retried_closures"] == 1
    assert_equal_to_the_plain_one(trace)


def test_closure_that_is_run_again_after_a_restart_that_nobody_had_missed_counts() -> None:
    """The task is back before its death is detected."""
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    cluster.faults.crash("worker:1", at=0.35, restart_after=1e-6)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(lambda: variable.assign_add(variable.value * 0.5), seconds=0.1)
    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    (failure,) = cluster.trace.summary()["failures"]
    assert failure["restarted_s"] is not None and failure["detected_s"] is not None
    assert failure["restarted_s"] < failure["detected_s"]
    assert failure["retried_closures"] == cluster.trace.summary()["instants"]["retry"] == 1


def test_task_that_is_not_restarted_is_down_until_the_last_record() -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 5.0)
    trace.span("worker:1", "down", "down", 0.5, 1.0)
    trace.instant("worker:1", "crash", "crash of worker:1", 2.0)
    assert trace.summary()["lanes"]["worker:1"]["seconds"] == {"down": 0.5 + 3.0}
