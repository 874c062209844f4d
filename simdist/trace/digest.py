"""The digest of a trace: sixteen digits that prove that two runs were the same.

What happened, where and when goes through SHA-256: the seed, lanes, spans, instants, counters and totals, in the
order in which they were recorded, times as the exact bytes of their float64. It is a rolling digest (rolling.py): asking
for it costs the same after a million spans as after ten, so a run can be asked at any moment.

Invariants: the digest does not depend on the codes that names happened to get, on the order of facts, on hash seeds
or on byte order. Looking changes nothing: instants of the category ``observe`` and what `Trace.value_dependent` says
are left out, so that a print or a fetch that is added to a program keeps its digest. Causes are left out, too.

Taught in lesson 00.
"""

from __future__ import annotations

import hashlib

from simdist.trace.event_log import EventLog
from simdist.trace.facts import canonical_json

__all__ = ["digest"]

FORMAT = "simdist trace 2"  # change it when the encoding changes
DIGITS = 16


def digest(trace: EventLog) -> str:
    """The first sixteen hexadecimal digits of the SHA-256 of a trace.

    Args:
        trace: the log of a run.

    Returns:
        Text of sixteen characters, equal for two runs exactly when the same things happened at the same times.

    Raises:
        InvalidArgumentError: if a fact has no text that is the same in every process.

    Example:
        >>> from simdist.trace import Trace
        >>> first, second = Trace(seed=1), Trace(seed=1)
        >>> _ = first.span("ps:0", "apply", "sgd", 0.0, 0.5, bytes=8, step=1)
        >>> _ = second.span("ps:0", "apply", "sgd", 0.0, 0.5, step=1, bytes=8)
        >>> digest(first) == digest(second)
        True
    """
    trace.spans.fold()
    trace.counters.fold()
    parts = [trace.spans.rolling.digest(), trace.instants.digest(), trace.counters.rolling.digest()]
    totals = sorted((lane, name, float(amount).hex()) for (lane, name), amount in trace.totals.items())
    whole = [FORMAT, trace.seed, trace.lanes, *(part.hex() for part in parts), totals]
    return hashlib.sha256(canonical_json(whole).encode()).hexdigest()[:DIGITS]
