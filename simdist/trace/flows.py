"""What led to what: pairs of records that an arrow connects in a picture of the log.

An ``apply`` with a fact ``worker`` comes from that worker's ``update``: the span that was going on on the worker's lane,
or was the last there, when the apply began. A crash leads to its detection, to the retries, and to the restart, in the
order in which they were recorded.

Invariants: pairs are in the order of their effects; a cause begins no later than its effect.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import numpy as np

from simdist.trace.event_log import EventLog
from simdist.trace.failures import failures
from simdist.trace.records import Instant

__all__ = ["recovery_flows", "update_flows"]

CONTAINER = "closure"


def update_flows(trace: EventLog) -> list[tuple[int, int]]:
    """Rows of updates, each with the row of a span in which a server applied it.

    Args:
        trace: the log of a run.

    Returns:
        Pairs of row numbers (update, apply), in the order of the applies.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("ps:0", "apply", "sgd", 1.0, 2.0, worker="worker:0")
        >>> _ = trace.span("worker:0", "update", "update", 0.5, 2.5)
        >>> update_flows(trace)
        [(1, 0)]
    """
    columns, texts = trace.spans.columns(), trace.names.texts
    rows, workers = trace.spans.values_of("worker")
    applied = set(trace.spans.rows_where(category="apply").tolist())
    updates = set(trace.spans.rows_where(category="update").tolist())
    parts = np.flatnonzero(columns["category"] != trace.names.codes.get(CONTAINER, -1))
    begun: dict[str, list[tuple[float, int]]] = {}
    for start_s, row, lane in zip(columns["start_s"][parts].tolist(), parts.tolist(), columns["lane"][parts].tolist(), strict=True):
        begun.setdefault(texts[lane], []).append((start_s, row))
    for spans in begun.values():
        spans.sort()
    flows: list[tuple[int, int]] = []
    for row, worker in zip(rows.tolist(), workers, strict=True):
        spans = begun.get(str(worker), [])
        index = bisect_right(spans, (float(columns["start_s"][row]), len(columns["lane"]))) - 1
        if row in applied and index >= 0 and spans[index][1] in updates:
            flows.append((spans[index][1], row))
    return flows


def recovery_flows(trace: EventLog) -> list[tuple[int, int]]:
    """Positions of instants that follow from each other after a crash.

    Args:
        trace: the log of a run.

    Returns:
        Pairs of positions in `trace.instants` (cause, effect), in order.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> for category in ("crash", "place", "detect", "restart"):
        ...     _ = trace.instant("worker:0", category, category, 1.0)
        >>> recovery_flows(trace)
        [(0, 2), (2, 3)]
    """
    position = {id(item): place for place, item in enumerate(trace.instants)}
    flows: set[tuple[int, int]] = set()
    for failure in failures(list(trace.instants)):
        story: list[Instant | None] = [failure.crash, failure.detect, *failure.retries, failure.restart]
        flows |= set(pairwise(sorted(position[id(item)] for item in story if item is not None)))
    return sorted(flows, key=lambda flow: (flow[1], flow[0]))
