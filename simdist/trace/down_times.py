"""Down times that have no end in the log: of tasks that crashed and were not restarted.

A down time is recorded as a span when it ends. One that never ends is known from its crash alone; pictures show it up to
the end of the log.

Taught in lesson 01.
"""

from __future__ import annotations

from simdist.trace.event_log import EventLog

__all__ = ["unfinished_down_times"]

DEATHS = frozenset({"crash", "lose_host"})
RESTART = "restart"


def unfinished_down_times(trace: EventLog) -> dict[str, float]:
    """The tasks that are down at the end of a log.

    Args:
        trace: the log.

    Returns:
        The virtual second since which each of them is down, by lane; one that crashed in the last moment is left out.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.instant("worker:0", "crash", "crash of worker:0", 0.5)
        >>> _ = trace.span("worker:1", "compute", "step", 0.0, 2.0)
        >>> unfinished_down_times(trace)
        {'worker:0': 0.5}
    """
    since_s: dict[str, float] = {}
    for instant in sorted(trace.instants, key=lambda instant: instant.time_s):
        if instant.category in DEATHS:
            since_s.setdefault(instant.lane, instant.time_s)
        elif instant.category == RESTART:
            since_s.pop(instant.lane, None)
    end_s = trace.end_s()
    return {lane: start_s for lane, start_s in since_s.items() if start_s < end_s}
