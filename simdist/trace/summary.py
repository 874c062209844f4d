"""The summary of a run: utilisation, bytes, waits, faults and recoveries.

A lane is *busy* while at least one span of work covers the moment. Spans of the category ``closure`` do not count
(a closure contains the work that is done for it, and waiting), nor do those of ``down``. A task is *utilised* while its
devices compute: spans of the categories ``compute`` and ``apply``, as a share of the run, averaged over the lanes of the
task that have any.

Bytes come from the totals ``bytes_sent`` of tasks and ``link_bytes`` of links, the length of queues from the counter
``queue``; staleness.py, critical_path.py and failures.py say how the rest is found.

Invariants: sums are exactly rounded (math.fsum), so a summary is the same on every machine; a moment that
never came is None.

Taught in lesson 01.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from simdist.trace.critical_path import critical_path
from simdist.trace.event_log import EventLog
from simdist.trace.failures import Failure, failures
from simdist.trace.records import task_of
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

NOT_WORK = ("closure", "down")
DEVICE_WORK = ("compute", "apply")

Columns = dict[str, np.ndarray]


def summary(trace: EventLog) -> Summary:
    """The summary of a run, as plain data.

    Args:
        trace: the log of the run.

    Returns:
        A dict with ``seed``, ``duration_s``, ``spans`` and ``instants`` (counts by category), and

        - ``lanes``: for each lane ``busy_s``, ``utilisation`` (share of the run in which it was busy, 0 to 1),
          ``seconds`` by category, ``bytes_sent``;
        - ``tasks``: for each task ``utilisation`` (share of the run in which its devices computed) and ``bytes_sent``;
        - ``links``: bytes by name of the link;
        - ``staleness``: ``updates``, ``mean``, ``max`` and ``histogram`` (number of updates by staleness);
        - ``queues``: for each lane with a counter ``queue`` its ``mean`` over time and its ``max``;
        - ``critical_path``: ``end_s``, ``waited_s``, ``segments`` (how many) and ``seconds`` by category;
        - ``failures``: for each crash ``task``, ``time_s``, ``detected_s``, ``restarted_s``, ``recovery_s`` from crash to
          restart, ``retried_closures``.

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
    columns = trace.spans.columns()
    return {
        "seed": trace.seed,
        "duration_s": duration_s,
        "lanes": {lane: _lane(trace, lane, columns, duration_s) for lane in _lanes(trace, columns)},
        "tasks": _tasks(trace, _lanes(trace, columns)),
        "links": {lane: _whole(amount) for (lane, name), amount in sorted(trace.sums().items()) if name == "link_bytes"},
        "spans": dict(sorted(Counter(_texts(trace, columns["category"])).items())),
        "instants": dict(sorted(Counter(item.category for item in trace.instants).items())),
        "staleness": _staleness(stale_updates(trace).staleness),
        "queues": {lane: _queue(*trace.counters.series(lane, "queue"), duration_s) for lane in trace.counters.lanes_of("queue")},
        "critical_path": _critical(trace),
        "failures": [_failure(failure) for failure in failures(list(trace.instants))],
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
    duration_s, columns, codes = trace.end_s(), trace.spans.columns(), trace.names.codes
    work = np.isin(columns["category"], [codes.get(name, -1) for name in DEVICE_WORK])
    busy_s: dict[str, list[float]] = {}
    for lane in _lanes(trace, columns):
        rows = np.flatnonzero(work & (columns["lane"] == codes.get(lane, -1)))
        if len(rows):
            busy_s.setdefault(task_of(lane), []).append(_union_s(columns["start_s"][rows], columns["end_s"][rows]))
    return {task: math.fsum(parts) / len(parts) / duration_s if duration_s else 0.0 for task, parts in busy_s.items()}


def _lanes(trace: EventLog, columns: Columns) -> list[str]:
    """Declared lanes first, in their order, then others as they appear."""
    recorded = dict.fromkeys(_texts(trace, columns["lane"]))
    marked = (item.lane for item in trace.instants)
    sending = (lane for lane, name in trace.totals if name == "bytes_sent")
    return list(dict.fromkeys([*trace.lanes, *recorded, *marked, *sending]))


def _texts(trace: EventLog, codes: np.ndarray) -> list[str]:
    texts = trace.names.texts
    return [texts[code] for code in codes.tolist()]


def _lane(trace: EventLog, lane: str, columns: Columns, duration_s: float) -> LaneSummary:
    codes = trace.names.codes
    rows = np.flatnonzero(columns["lane"] == codes.get(lane, -1))
    category, start_s, end_s = columns["category"][rows], columns["start_s"][rows], columns["end_s"][rows]
    work = ~np.isin(category, [codes.get(name, -1) for name in NOT_WORK])
    busy_s = _union_s(start_s[work], end_s[work])
    seconds = {text: math.fsum((end_s - start_s)[category == codes[text]].tolist()) for text in sorted(_texts(trace, np.unique(category)))}
    return {
        "busy_s": busy_s,
        "utilisation": busy_s / duration_s if duration_s else 0.0,
        "seconds": seconds,
        "bytes_sent": _whole(trace.totals.get((lane, "bytes_sent"), 0)),
    }


def _tasks(trace: EventLog, lanes: list[str]) -> dict[str, TaskSummary]:
    utilisation = utilisation_by_task(trace)
    sent: dict[str, list[float]] = {task_of(lane): [] for lane in lanes}
    for lane in lanes:
        sent[task_of(lane)].append(trace.totals.get((lane, "bytes_sent"), 0))
    return {task: {"utilisation": utilisation.get(task, 0.0), "bytes_sent": _whole(math.fsum(parts))} for task, parts in sent.items()}


def _whole(amount: float) -> float:
    return int(amount) if float(amount).is_integer() else amount


def _union_s(start_s: np.ndarray, end_s: np.ndarray) -> float:
    """How long at least one of the intervals lasts, in seconds."""
    if not len(start_s):
        return 0.0
    order = np.argsort(start_s, kind="stable")
    start_s, reached_s = start_s[order], np.maximum.accumulate(end_s[order])
    new = np.concatenate([[True], start_s[1:] > reached_s[:-1]])  # here nothing before is still going on
    last = np.concatenate([new[1:], [True]])
    return math.fsum((reached_s[last] - start_s[new]).tolist())


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
    }
