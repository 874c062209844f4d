"""The numbers of a summary as text for reading: aligned tables and a few lines.

Invariant: equal summaries give equal text; what did not happen takes no line.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from simdist.trace.summary_records import FailureSummary, LaneSummary, ServerSummary, Summary

__all__ = ["format_summary"]

# Of a large cluster a line names the largest only.
NAMES_IN_A_LINE = 16

NEVER = "-"


def format_summary(numbers: Summary) -> str:
    """The dict of `summary` as a text of aligned tables.

    Args:
        numbers: what `summary` returned.

    Returns:
        Lines for reading, without a newline at the end; times in virtual seconds.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 3.0)
        >>> print(format_summary(trace.summary()))
        3.000000 virtual seconds, seed 0
        spans: compute 1
        instants: none
        <BLANKLINE>
        lane      busy_s    busy     bytes_sent  compute_s
        worker:0  3.000000  100.0 %  0           3.000000
        <BLANKLINE>
        devices computed: worker:0 100.0 %
        critical path: compute 100.0 %, in 1 segment
    """
    lines = [
        f"{_seconds(numbers['duration_s'])} virtual seconds, seed {numbers['seed']}",
        f"spans: {_counts(numbers['spans'])}",
        f"instants: {_counts(numbers['instants'])}",
    ]
    if numbers["lanes"]:
        lines += ["", *_lane_table(numbers["lanes"])]
    if any(server["updates"] for server in numbers["servers"].values()):
        lines += ["", *_server_table(numbers["servers"])]
    if more := [line for show in (_devices, _links, _queues, _staleness, _critical_path) for line in show(numbers)]:
        lines += ["", *more]
    if numbers["failures"]:
        lines += ["", *_failure_table(numbers["failures"])]
    return "\n".join(lines)


def _lane_table(lanes: Mapping[str, LaneSummary]) -> list[str]:
    categories = sorted({category for lane in lanes.values() for category in lane["seconds"]})
    header = ["lane", "busy_s", "busy", "bytes_sent", *(f"{category}_s" for category in categories)]
    rows = [
        [
            name,
            _seconds(lane["busy_s"]),
            f"{100 * lane['utilisation']:.1f} %",
            _bytes(lane["bytes_sent"]),
            *(_seconds(lane["seconds"].get(category)) for category in categories),
        ]
        for name, lane in lanes.items()
    ]
    return _aligned([header, *rows])


def _server_table(servers: Mapping[str, ServerSummary]) -> list[str]:
    header = ["server", "updates", "staleness", "largest", "applied_s", "applying", "bytes_received", "bytes_sent"]
    shown = _most({name: server["updates"] for name, server in servers.items()})
    rows = [
        [
            name,
            f"{server['updates']:,}",
            NEVER if server["mean_staleness"] is None else f"{server['mean_staleness']:.2f}",
            NEVER if server["max_staleness"] is None else str(server["max_staleness"]),
            _seconds(server["busy_s"]),
            f"{100 * server['utilisation']:.1f} %",
            NEVER if server["bytes_received"] is None else _bytes(server["bytes_received"]),
            _bytes(server["bytes_sent"]),
        ]
        for name, server in servers.items()
        if name in shown
    ]
    lines = _aligned([header, *rows])
    return [*lines, f"and {len(servers) - len(rows)} others with fewer updates"] if len(rows) < len(servers) else lines


def _failure_table(failures: Sequence[FailureSummary]) -> list[str]:
    # Only servers with recovery="checkpoint" or "replica" roll updates back.
    counts: list[Literal["retried_closures", "rolled_back_updates"]] = ["retried_closures", "rolled_back_updates"]
    counts = counts if any(failure["rolled_back_updates"] for failure in failures) else counts[:1]
    header = ["crashed", "time_s", "detected_s", "restarted_s", "recovery_s", *counts]
    rows = [
        [
            failure["task"],
            *(_seconds(failure[key]) for key in ("time_s", "detected_s", "restarted_s", "recovery_s")),
            *(str(failure[key]) for key in counts),
        ]
        for failure in failures
    ]
    return _aligned([header, *rows])


def _devices(numbers: Summary) -> list[str]:
    shares = {task: row["utilisation"] for task, row in numbers["tasks"].items() if row["utilisation"]}
    return [f"devices computed: {_shares(_most(shares))}{_others(shares)}"] if shares else []


def _links(numbers: Summary) -> list[str]:
    links = numbers["links"]
    sent = ", ".join(f"{link} {_bytes(amount)}" for link, amount in _most(links).items())
    return [f"bytes by link: {sent}{_others(links)}"] if sent else []


def _most(values: Mapping[str, float]) -> dict[str, float]:
    """All of a few values, and of many the largest, in the order in which they came."""
    largest = sorted(values, key=lambda name: -values[name])[:NAMES_IN_A_LINE]
    return {name: value for name, value in values.items() if name in largest}


def _others(values: Mapping[str, float]) -> str:
    left = len(values) - NAMES_IN_A_LINE
    return f", and {left} others" if left > 0 else ""


def _queues(numbers: Summary) -> list[str]:
    return [f"queue of {lane}: mean {row['mean']:.2f}, largest {row['max']:g}" for lane, row in numbers["queues"].items()]


def _staleness(numbers: Summary) -> list[str]:
    stale = numbers["staleness"]
    if not stale["updates"]:
        return []
    histogram = ", ".join(f"{staleness}: {count:,}" for staleness, count in stale["histogram"].items())
    return [f"staleness of {stale['updates']:,} updates: mean {stale['mean']:.2f}, largest {stale['max']} ({histogram})"]


def _critical_path(numbers: Summary) -> list[str]:
    path = numbers["critical_path"]
    if not path["end_s"]:
        return []
    parts = path["seconds"] | ({"waiting": path["waited_s"]} if path["waited_s"] else {})
    shares = _shares({name: seconds / path["end_s"] for name, seconds in parts.items()})
    return [f"critical path: {shares}, in {path['segments']:,} segment{'' if path['segments'] == 1 else 's'}"]


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{category} {count:,}" for category, count in counts.items()) or "none"


def _bytes(amount: float) -> str:
    """A part of a message may be a broken number of bytes: a third of it."""
    return f"{amount:,.0f}"


def _seconds(value: float | None) -> str:
    return NEVER if value is None else f"{value:.6f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
