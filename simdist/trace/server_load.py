"""The load of every parameter server: its updates, how stale they were, how long it was busy with them, and its bytes.

A server is a task of the job ``ps``; one that did nothing is listed too, since an idle server is half of an imbalance. Bytes received are
those that its port has carried: where it shares the port with other tasks, they are not known apart.

Invariant: the columns of the log are read once for all servers, so the cost grows with spans, not with servers times spans.

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from simdist.trace.by_key import union_by_key
from simdist.trace.event_log import EventLog
from simdist.trace.records import task_of
from simdist.trace.staleness import Updates, staleness_by_lane
from simdist.trace.summary_records import ServerSummary

__all__ = ["server_loads"]

JOB = "ps"


def server_loads(trace: EventLog, lanes: Iterable[str], stale: Updates) -> dict[str, ServerSummary]:
    """The load of every server.

    Args:
        trace: the log of the run.
        lanes: all lanes of the run.
        stale: the updates whose staleness is known (`stale_updates`).

    Returns:
        What each server did, in the order of the lanes; empty where there is no server.

    Example:
        >>> from simdist.trace import Trace
        >>> from simdist.trace.staleness import stale_updates
        >>> trace = Trace()
        >>> _ = trace.span("ps:0", "apply", "sgd", 0.0, 1.0, worker="worker:0")
        >>> _ = trace.span("worker:0", "compute", "step", 1.0, 4.0)
        >>> load = server_loads(trace, ["ps:0", "worker:0"], stale_updates(trace))["ps:0"]
        >>> load["updates"], load["busy_s"], load["utilisation"]
        (1, 1.0, 0.25)
    """
    servers = [lane for lane in dict.fromkeys(map(task_of, lanes)) if lane.partition(":")[0] == JOB]
    if not servers:
        return {}
    codes, spans, duration_s, sums = trace.names.codes, trace.spans, trace.end_s(), trace.sums()
    applied = spans.rows_where(category="apply")
    lane = spans.lane
    updates = np.bincount(lane[applied], minlength=len(trace.names.texts))
    busy_s = union_by_key(lane[applied], spans.start[applied], spans.end[applied])
    staleness = staleness_by_lane(trace, stale)
    found: dict[str, ServerSummary] = {}
    for server in servers:
        code = codes.get(server, -1)
        count, seconds = int(updates[code]) if code >= 0 else 0, busy_s.get(code, 0.0)
        mean, largest = staleness.get(server, (None, None))
        found[server] = {
            "updates": count,
            "mean_staleness": mean,
            "max_staleness": largest,
            "busy_s": seconds,
            "utilisation": seconds / duration_s if duration_s else 0.0,
            "bytes_received": _received(sums, server, count),
            "bytes_sent": _whole(sums.get((server, "bytes_sent"), 0)),
        }
    return found


def _received(sums: Mapping[tuple[str, str], float], server: str, updates: int) -> float | None:
    """The bytes that came over the port of a server; None where that is not its port alone."""
    has_port = any((f"{server}/{end}", "link_bytes") in sums for end in ("in", "out"))
    is_idle = not updates and not sums.get((server, "bytes_sent"), 0)
    return _whole(sums.get((f"{server}/in", "link_bytes"), 0)) if has_port or is_idle else None


def _whole(amount: float) -> float:
    return int(amount) if float(amount).is_integer() else amount
