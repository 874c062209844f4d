"""The summary of a run: utilisation, bytes, waits, faults and recoveries.

A lane is *busy* while at least one span of work covers the moment. Spans of the category ``closure`` do not count
(a closure contains the work that is done for it, and waiting), nor do those of ``down``. A task is *utilised* while its
devices compute: spans of the categories ``compute`` and ``apply``, as a share of the run, averaged over the lanes of the
task that have any.

Bytes come from the totals ``bytes_sent`` of tasks and ``link_bytes`` of links, the length of queues from the counter
``queue``; staleness.py, server_load.py, critical_path.py and failures.py say how the rest is found.

Invariants: sums are exactly rounded (math.fsum), so a summary is the same on every machine; a moment that
never came is None.

Taught in lesson 01.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from simdist.trace.by_key import sum_by_key, union_by_key
from simdist.trace.critical_path import critical_path
from simdist.trace.down_times import unfinished_down_times
from simdist.trace.event_log import EventLog
from simdist.trace.failures import Failure, failures
from simdist.trace.records import task_of
from simdist.trace.server_load import server_loads
from simdist.trace.staleness import stale_updates
from simdist.trace.summary_records import (
    FailureSummary,
    LaneSummary,
    PathSummary,
    QueueSummary,
    StalenessSummary,
    Summary,
    TaskSummary,
)

__all__ = ["summary", "utilisation_by_task"]

NOT_WORK = ("closure", "down", "dropped", "input", "wait")
DEVICE_WORK = ("compute", "apply")


def summary(trace: EventLog) -> Summary:
    """The summary of a run, as plain data.

    Args:
        trace: the log of the run.

    Returns:
        A dict with ``seed``, ``duration_s`` (until the last record: time that passes while nothing is recorded is no part of the run),
        ``spans`` and ``instants`` (counts by category), and

        - ``lanes``: for each lane ``busy_s`` (it computed, read, sent or received; it did not wait), ``utilisation`` (share of the run in
          which it was busy, 0 to 1; what a worker had under way when it died, or when it dropped its closure, counts in neither),
          ``seconds`` by category (``down`` of a task that was not restarted: until the last record), ``bytes_sent``;
        - ``tasks``: for each task ``utilisation`` (share of the run in which its devices computed) and ``bytes_sent``;
        - ``links``: bytes by name of the link, of those that have carried any;
        - ``staleness``: ``updates``, ``mean``, ``max`` and ``histogram`` (number of updates by staleness);
        - ``servers``: for each parameter server ``updates``, ``mean_staleness`` and ``max_staleness`` of them, ``busy_s`` and
          ``utilisation`` by applying them, ``bytes_received`` (None where it shares its port) and ``bytes_sent``;
        - ``queues``: for each lane with a counter ``queue`` its ``mean`` over time and its ``max``;
        - ``critical_path``: ``end_s``, ``waited_s``, ``segments`` (how many) and ``seconds`` by category;
        - ``failures``: for each crash of a task that was up ``task``, ``time_s``, ``detected_s``, ``restarted_s``, ``recovery_s`` (from
          crash to restart), ``retried_closures``, ``rolled_back_updates`` (of all groups of variables of a server, by its return).

        Times are virtual seconds.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 3.0)
        >>> _ = trace.span("worker:0", "down", "down", 3.0, 4.0)
        >>> summary(trace)["lanes"]["worker:0"]["utilisation"]
        0.75
    """
    duration_s = trace.end_s()
    lanes, stale = _lanes(trace), stale_updates(trace)
    return {
        "seed": trace.seed,
        "duration_s": duration_s,
        "lanes": _by_lane(trace, lanes, duration_s),
        "tasks": _tasks(trace, lanes),
        "links": {lane: _whole(amount) for (lane, name), amount in sorted(trace.sums().items()) if name == "link_bytes" and amount},
        "spans": _counts(trace),
        "instants": dict(sorted(Counter(item.category for item in trace.instants).items())),
        "staleness": _staleness(stale.staleness),
        "servers": server_loads(trace, lanes, stale),
        "queues": {lane: _queue(*trace.counters.series(lane, "queue"), duration_s) for lane in trace.counters.lanes_of("queue")},
        "critical_path": _critical(trace),
        "failures": [_failure(failure) for failure in failures(trace.instants)],
    }


def utilisation_by_task(trace: EventLog) -> dict[str, float]:
    """The share of the run in which the devices of each task computed, from 0 to 1.

    Args:
        trace: the log of the run.

    Returns:
        Shares by task, of tasks whose devices computed at all, in the order of their lanes.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0/gpu:0", "compute", "step", 0.0, 1.0)
        >>> _ = trace.span("worker:0/gpu:1", "compute", "step", 0.0, 4.0)
        >>> utilisation_by_task(trace)
        {'worker:0': 0.625}
    """
    duration_s, codes = trace.end_s(), trace.names.codes
    computed_s = _busy_s(trace, _rows_of(trace, DEVICE_WORK))
    busy_s: dict[str, list[float]] = {}
    for lane in _lanes(trace):
        if (code := codes.get(lane, -1)) in computed_s:
            busy_s.setdefault(task_of(lane), []).append(computed_s[code])
    return {task: math.fsum(parts) / len(parts) / duration_s if duration_s else 0.0 for task, parts in busy_s.items()}


def _lanes(trace: EventLog) -> list[str]:
    """Declared lanes first, in their order, then others as they appear."""
    marked = (item.lane for item in trace.instants)
    sending = (lane for lane, name in trace.totals if name == "bytes_sent")
    return list(dict.fromkeys([*trace.lanes, *trace.spans.lanes(), *marked, *sending]))


def _counts(trace: EventLog) -> dict[str, int]:
    """How many spans each category has."""
    counts = np.bincount(trace.spans.category).tolist()
    return dict(sorted((trace.names.texts[code], count) for code, count in enumerate(counts) if count))


def _rows_of(trace: EventLog, categories: Sequence[str]) -> np.ndarray:
    """Whether each span belongs to one of these categories: bool of shape (n,)."""
    return np.isin(trace.spans.category, [trace.names.codes.get(name, -1) for name in categories])


def _busy_s(trace: EventLog, chosen: np.ndarray) -> dict[int, float]:
    """By the code of a lane, how long at least one of the chosen spans lasts; lanes without any are missing."""
    spans = trace.spans
    return union_by_key(spans.lane[chosen], spans.start[chosen], spans.end[chosen])


def _by_lane(trace: EventLog, lanes: list[str], duration_s: float) -> dict[str, LaneSummary]:
    codes, seconds, down_s = trace.names.codes, _seconds(trace), _unfinished_down_s(trace, duration_s)
    busy_s = _busy_s(trace, ~_rows_of(trace, NOT_WORK))
    return {
        lane: {
            "busy_s": busy_s.get(codes.get(lane, -1), 0.0),
            "utilisation": busy_s.get(codes.get(lane, -1), 0.0) / duration_s if duration_s else 0.0,
            "seconds": dict(sorted((seconds.get(codes.get(lane, -1), {}) | down_s.get(lane, {})).items())),
            "bytes_sent": _whole(trace.totals.get((lane, "bytes_sent"), 0)),
        }
        for lane in lanes
    }


def _unfinished_down_s(trace: EventLog, duration_s: float) -> dict[str, dict[str, float]]:
    """By lane, of tasks that are down at the end, how long they were down altogether, as their category ``down``."""
    since_s, spans = unfinished_down_times(trace), trace.spans
    rows = spans.rows_where(category="down")
    parts_s: dict[str, list[float]] = {lane: [duration_s - start_s] for lane, start_s in since_s.items()}
    for code, lasted_s in zip(spans.lane[rows].tolist(), (spans.end[rows] - spans.start[rows]).tolist(), strict=True):
        if (lane := trace.names.texts[code]) in parts_s:
            parts_s[lane].append(lasted_s)
    return {lane: {"down": math.fsum(parts)} for lane, parts in parts_s.items()}


def _seconds(trace: EventLog) -> dict[int, dict[str, float]]:
    """By the code of a lane, seconds by category in the order of the alphabet."""
    spans, texts = trace.spans, trace.names.texts
    categories = sorted(np.flatnonzero(np.bincount(spans.category)).tolist(), key=texts.__getitem__)
    position = np.zeros(len(texts), np.int64)
    position[categories] = np.arange(len(categories))
    seconds: dict[int, dict[str, float]] = {}
    keys = spans.lane.astype(np.int64) * len(categories) + position[spans.category]
    for key, sum_s in sum_by_key(keys, spans.end - spans.start).items():
        lane, category = divmod(key, len(categories))
        seconds.setdefault(lane, {})[texts[categories[category]]] = sum_s
    return seconds


def _tasks(trace: EventLog, lanes: list[str]) -> dict[str, TaskSummary]:
    utilisation = utilisation_by_task(trace)
    sent: dict[str, list[float]] = {task_of(lane): [] for lane in lanes}
    for lane in lanes:
        sent[task_of(lane)].append(trace.totals.get((lane, "bytes_sent"), 0))
    return {task: {"utilisation": utilisation.get(task, 0.0), "bytes_sent": _whole(math.fsum(parts))} for task, parts in sent.items()}


def _whole(amount: float) -> float:
    return int(amount) if float(amount).is_integer() else amount


def _staleness(staleness: np.ndarray) -> StalenessSummary:
    if not len(staleness):
        return {"updates": 0, "mean": None, "max": None, "histogram": {}}
    values, counts = np.unique(staleness, return_counts=True)
    histogram = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return {
        "updates": len(staleness),
        "mean": int(staleness.sum()) / len(staleness),
        "max": int(staleness.max()),
        "histogram": histogram,
    }


def _queue(time_s: np.ndarray, length: np.ndarray, duration_s: float) -> QueueSummary:
    """Each length counts for as long as it lasted, from the first sample to the end of the run."""
    lasted_s = np.diff(np.append(time_s, max(duration_s, float(time_s[-1]))))
    all_s = math.fsum(lasted_s.tolist())
    mean = math.fsum((length * lasted_s).tolist()) / all_s if all_s else float(length[-1])
    return {"mean": mean, "max": float(length.max())}


def _critical(trace: EventLog) -> PathSummary:
    path = critical_path(trace)
    return {"end_s": path.end_s, "waited_s": path.waited_s, "segments": len(path.parts), "seconds": path.seconds}


def _failure(failure: Failure) -> FailureSummary:
    crashed_s = failure.crash.time_s
    restarted_s = None if failure.restart is None else failure.restart.time_s
    return {
        "task": failure.crash.lane,
        "time_s": crashed_s,
        "detected_s": None if failure.detect is None else failure.detect.time_s,
        "restarted_s": restarted_s,
        "recovery_s": None if restarted_s is None else restarted_s - crashed_s,
        "retried_closures": len(failure.retries),
        "rolled_back_updates": sum(int(str(rollback.facts["updates"])) for rollback in failure.rollbacks),
    }
