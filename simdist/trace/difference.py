"""Where two runs part: the first record that they do not share.

The marks of the two rolling digests (rolling.py) say by bisection which block of spans is the first to differ; only
that block is looked at, so a run of a million spans is compared with its fork in milliseconds.

Invariants: what is equal is what gives the same digest, so NaN equals NaN; looks (instants of the category ``observe``) are passed over,
as they are in digests.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np

from simdist.trace.event_log import EventLog
from simdist.trace.facts import canonical_json
from simdist.trace.instant_log import OBSERVATION
from simdist.trace.records import Instant
from simdist.trace.rolling import ROWS_BETWEEN_MARKS
from simdist.trace.span_log import SpanLog

__all__ = ["first_difference"]


def first_difference(first: EventLog, second: EventLog) -> int | None:
    """The number of the first record of `first` that `second` does not have at the same place.

    Args:
        first, second: the logs of two runs.

    Returns:
        The number of a span or instant of `first`, for `EventLog.record`; `first.recorded` where `first` is the
        beginning of `second`; None where both have the same spans and instants.

    Example:
        >>> from simdist.trace import Trace
        >>> first, second = Trace(), Trace()
        >>> for end_s in (1.0, 2.0, 3.0):
        ...     _ = first.span("worker:0", "compute", "step", 0.0, end_s)
        ...     _ = second.span("worker:0", "compute", "step", 0.0, min(end_s, 2.5))
        >>> first_difference(first, second)
        2
    """
    found = [_span_number(first, row) for row in [_first_span(first.spans, second.spans)] if row is not None]
    numbers = first.instants.numbers()
    mine = [(number, item) for number, item in zip(numbers, first.instants, strict=True) if item.category != OBSERVATION]
    theirs = [item for item in second.instants if item.category != OBSERVATION]
    for pair, other in zip_longest(mine, theirs):
        if pair is None or other is None or not _is_same(pair[1], other):
            found.append(first.recorded if pair is None else pair[0])
            break
    return min(found, default=None)


def _is_same(first: Instant, second: Instant) -> bool:
    heads = [(one.lane, one.category, one.name, float(one.time_s).hex()) for one in (first, second)]
    return heads[0] == heads[1] and (first.facts is second.facts or canonical_json(first.facts) == canonical_json(second.facts))


def _span_number(log: EventLog, row: int) -> int:
    return row + int(np.searchsorted(log.instants.spans_before, row, side="right"))


def _first_span(first: SpanLog, second: SpanLog) -> int | None:
    """The first row in which two logs differ; None where there is none."""
    lengths = len(first), len(second)
    first.fold()
    second.fold()
    begin = first.rolling.common_marks(second.rolling)
    end = min(*lengths, begin + ROWS_BETWEEN_MARKS)
    same = np.ones(end - begin, bool)
    for mine, theirs in zip(first.numbers(), second.numbers(), strict=True):
        same &= mine[begin:end].view(np.int64) == theirs[begin:end].view(np.int64)
    kinds = zip(first.kind[begin:end].tolist(), second.kind[begin:end].tolist(), strict=True)
    equal: dict[tuple[int, int], bool] = {}
    for place, (mine, theirs) in enumerate(kinds):
        if (mine, theirs) not in equal:
            equal[mine, theirs] = first.kinds.all[mine].text == second.kinds.all[theirs].text
        same[place] &= equal[mine, theirs]
    if not same.all():
        return begin + int(np.argmin(same))
    return None if lengths[0] == lengths[1] else min(lengths)
