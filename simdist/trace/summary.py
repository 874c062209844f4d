"""A run in numbers: who was busy for how long, what was sent, what failed and how it came back.

A lane is *busy* while at least one span of work covers the moment. Spans of the category ``closure`` do not count
(a closure contains the work that is done for it, and waiting), nor do those of ``down``.

A failure is a ``crash`` instant. It is *detected* and *restarted* by the first ``detect`` and ``restart`` instant of
the same lane that was recorded after it and before the lane's next crash. The closures retried for it are the
``retry`` instants up to its restart (or its next crash, or the end of the run) that name the lane in a fact ``task``,
or name no task.

Invariants: sums are exactly rounded (math.fsum), so a summary is the same on every machine; a moment that
never came is None.

Taught in lesson 01.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdist.trace.records import Instant, Trace

__all__ = ["format_summary", "summary"]

NOT_WORK = ("closure", "down")
NEVER = "-"


def summary(trace: Trace) -> dict[str, Any]:
    """What happened in a run, as plain data.

    Args:
        trace: the log of the run.

    Returns:
        A dict with ``seed``, ``duration_s``, ``spans`` and ``instants`` (counts by category), ``lanes`` (for each lane
        ``busy_s``, ``utilisation`` from 0 to 1, ``seconds`` by category, ``bytes_sent``) and ``failures`` (for each
        crash ``task``, ``time_s``, ``detected_s``, ``restarted_s``, ``recovery_s`` from crash to restart,
        ``retried_closures``). Times are virtual seconds.

    Example:
        >>> trace = Trace()
        >>> trace.span("worker:0", "compute", "step", 0.0, 3.0)
        >>> trace.span("worker:0", "down", "down", 3.0, 4.0)
        >>> summary(trace)["lanes"]["worker:0"]["utilisation"]
        0.75
    """
    duration_s = trace.end_s()
    columns = trace.spans.columns()
    return {
        "seed": trace.seed,
        "duration_s": duration_s,
        "lanes": {lane: _lane(trace, lane, columns, duration_s) for lane in _lanes(trace, columns)},
        "spans": dict(sorted(Counter(_texts(trace, columns["category"])).items())),
        "instants": dict(sorted(Counter(item.category for item in trace.instants).items())),
        "failures": _failures(list(trace.instants)),
    }


def _lanes(trace: Trace, columns: dict[str, np.ndarray]) -> list[str]:
    """Declared lanes first, in their order, then others as they appear."""
    recorded = dict.fromkeys(_texts(trace, columns["lane"]))
    marked = (item.lane for item in trace.instants)
    sending = (lane for lane, name in trace.totals if name == "bytes_sent")
    return list(dict.fromkeys([*trace.lanes, *recorded, *marked, *sending]))


def _texts(trace: Trace, codes: np.ndarray) -> list[str]:
    return [trace.names.texts[code] for code in codes.tolist()]


def _lane(trace: Trace, lane: str, columns: dict[str, np.ndarray], duration_s: float) -> dict[str, Any]:
    codes = trace.names.codes
    rows = np.flatnonzero(columns["lane"] == codes.get(lane, -1))
    category, start_s, end_s = columns["category"][rows], columns["start_s"][rows], columns["end_s"][rows]
    work = ~np.isin(category, [codes.get(name, -1) for name in NOT_WORK])
    busy_s = _union_s(start_s[work], end_s[work])
    seconds = {text: math.fsum((end_s - start_s)[category == codes[text]].tolist()) for text in sorted(_texts(trace, np.unique(category)))}
    sent = trace.totals.get((lane, "bytes_sent"), 0)
    return {
        "busy_s": busy_s,
        "utilisation": busy_s / duration_s if duration_s else 0.0,
        "seconds": seconds,
        "bytes_sent": int(sent) if float(sent).is_integer() else sent,
    }


def _union_s(start_s: np.ndarray, end_s: np.ndarray) -> float:
    """How long at least one of the intervals lasts, in seconds."""
    if not len(start_s):
        return 0.0
    order = np.argsort(start_s, kind="stable")
    start_s, reached_s = start_s[order], np.maximum.accumulate(end_s[order])
    new = np.concatenate([[True], start_s[1:] > reached_s[:-1]])  # here nothing before is still going on
    last = np.concatenate([new[1:], [True]])
    return math.fsum((reached_s[last] - start_s[new]).tolist())


def _failures(instants: Sequence[Instant]) -> list[dict[str, Any]]:
    crashes = [row for row, item in enumerate(instants) if item.category == "crash"]
    return [_failure(instants[row], instants[row + 1 :]) for row in crashes]


def _failure(crash: Instant, later: Sequence[Instant]) -> dict[str, Any]:
    crashes = (row for row, item in enumerate(later) if item.category == "crash" and item.lane == crash.lane)
    later = later[: next(crashes, len(later))]
    own = [item for item in later if item.lane == crash.lane]
    restarted_s = _first_s(own, "restart")
    return {
        "task": crash.lane,
        "time_s": crash.time_s,
        "detected_s": _first_s(own, "detect"),
        "restarted_s": restarted_s,
        "recovery_s": None if restarted_s is None else restarted_s - crash.time_s,
        "retried_closures": _retried(crash.lane, later, math.inf if restarted_s is None else restarted_s),
    }


def _first_s(instants: Sequence[Instant], category: str) -> float | None:
    return next((item.time_s for item in instants if item.category == category), None)


def _retried(task: str, later: Sequence[Instant], until_s: float) -> int:
    retries = (item for item in later if item.category == "retry" and item.time_s <= until_s)
    return sum(str(item.facts.get("task", task)) == task for item in retries)


def format_summary(numbers: dict[str, Any]) -> str:
    """The dict of `summary` as a text of aligned tables.

    Args:
        numbers: what `summary` returned.

    Returns:
        Lines for reading, without a newline at the end; times in virtual seconds.

    Example:
        >>> trace = Trace()
        >>> trace.span("worker:0", "compute", "step", 0.0, 3.0)
        >>> print(format_summary(trace.summary()))
        3.000000 virtual seconds, seed 0
        spans: compute 1
        instants: none
        <BLANKLINE>
        lane      busy_s    busy     bytes_sent  compute_s
        worker:0  3.000000  100.0 %  0           3.000000
    """
    lines = [
        f"{_seconds(numbers['duration_s'])} virtual seconds, seed {numbers['seed']}",
        f"spans: {_counts(numbers['spans'])}",
        f"instants: {_counts(numbers['instants'])}",
    ]
    if numbers["lanes"]:
        lines += ["", *_lane_table(numbers["lanes"])]
    if numbers["failures"]:
        lines += ["", *_failure_table(numbers["failures"])]
    return "\n".join(lines)


def _lane_table(lanes: dict[str, dict[str, Any]]) -> list[str]:
    categories = sorted({category for lane in lanes.values() for category in lane["seconds"]})
    header = ["lane", "busy_s", "busy", "bytes_sent", *(f"{category}_s" for category in categories)]
    rows = [
        [
            name,
            _seconds(lane["busy_s"]),
            f"{100 * lane['utilisation']:.1f} %",
            f"{lane['bytes_sent']:,}",
            *(_seconds(lane["seconds"].get(category)) for category in categories),
        ]
        for name, lane in lanes.items()
    ]
    return _aligned([header, *rows])


def _failure_table(failures: Sequence[dict[str, Any]]) -> list[str]:
    columns: dict[str, Callable[[Any], str]] = {
        "task": str,
        "time_s": _seconds,
        "detected_s": _seconds,
        "restarted_s": _seconds,
        "recovery_s": _seconds,
        "retried_closures": str,
    }
    header = ["crashed", *list(columns)[1:]]
    return _aligned([header, *([show(failure[key]) for key, show in columns.items()] for failure in failures)])


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{category} {count:,}" for category, count in counts.items()) or "none"


def _seconds(value: float | None) -> str:
    return NEVER if value is None else f"{value:.6f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
