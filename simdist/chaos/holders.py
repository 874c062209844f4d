"""Who had the variables when: what a survivor needs to go on.

All workers begin with copies. A worker that dies loses its own; it has them again when they have come from somebody else,
which the trace shows as a span "variables of a survivor" on its lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.chaos.incarnations import Lives
from simdist.trace import Trace
from simdist.trace.records import task_of

__all__ = ["somebody_has_the_variables"]


def somebody_has_the_variables(
    trace: Trace, processes: Lives, workers: Sequence[str], until_s: float, forgotten: Sequence[tuple[float, str]] = ()
) -> bool:
    """Whether at each moment up to one at least one worker that was up had the variables; `forgotten` says whose were given up when."""
    events = [(down.from_s, 1, down.task) for down in processes.downs if down.from_s <= until_s]
    events += [(time_s, 1, task) for time_s, task in forgotten if time_s <= until_s]
    copies = trace.spans.where(category="read", name="variables of a survivor")
    # A copy that comes in the moment of a death may count or not; it is given the benefit of neither.
    events += [(span.end_s, 0, task_of(span.lane)) for span in copies]
    holders = set(workers)
    for time_s, what, task in sorted(events):
        if what == 0 and processes.is_up(task, time_s):
            holders.add(task)
        else:
            holders.discard(task)
        if not holders:
            return False
    return True
