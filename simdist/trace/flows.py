"""What led to what: pairs of records that an arrow connects in a picture of the log.

Each record names its cause, the last record that it waited for. An arrow is worth drawing where the cause lies on
another lane and was over when its effect began; an instant leads to what follows from it on any lane: a crash to its
detection, the detection to the retries and the restart.

Invariants: pairs are in the order of their effects; a cause begins no later than its effect.
"""

from __future__ import annotations

import numpy as np

from simdist.trace.event_log import EventLog

__all__ = ["flows_between_lanes", "flows_of_instants"]


def flows_between_lanes(trace: EventLog) -> list[tuple[int, int]]:
    """Rows of spans, each with the row of a span of another lane that waited for it.

    Args:
        trace: the log of a run.

    Returns:
        Pairs of row numbers (cause, effect), in the order of the effects.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> compute = trace.span("worker:0", "compute", "step", 0.0, 1.0)
        >>> _ = trace.span("ps:0", "apply", "sgd", 1.5, 2.0, cause=compute)
        >>> flows_between_lanes(trace)
        [(0, 1)]
    """
    spans = trace.spans
    effects = np.flatnonzero(spans.cause >= 0)
    causes = trace.span_rows()[spans.cause[effects]]
    drawn = (causes >= 0) & (spans.lane[causes] != spans.lane[effects]) & (spans.end[causes] <= spans.start[effects])
    return list(zip(causes[drawn].tolist(), effects[drawn].tolist(), strict=True))


def flows_of_instants(trace: EventLog) -> list[tuple[int, int]]:
    """Positions of instants, each with the position of an instant that follows from it.

    Args:
        trace: the log of a run.

    Returns:
        Pairs of positions in `trace.instants` (cause, effect), in the order of the effects.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> crash = trace.instant("worker:0", "crash", "crash of worker:0", 1.0)
        >>> detect = trace.instant("worker:0", "detect", "worker:0 is down", 1.5, cause=crash)
        >>> flows_of_instants(trace)
        [(0, 1)]
    """
    position = {number: place for place, number in enumerate(trace.instants.numbers())}
    return [(position[item.cause], place) for place, item in enumerate(trace.instants) if item.cause in position]
