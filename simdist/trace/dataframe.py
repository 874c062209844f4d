"""A trace as a pandas table, for questions that no picture answers.

pandas is loaded when a table is asked for: the package works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simdist.extras import needs
from simdist.trace.event_log import EventLog

if TYPE_CHECKING:
    import pandas

__all__ = ["to_dataframe"]


def to_dataframe(trace: EventLog) -> pandas.DataFrame:
    """All spans of a trace as a pandas DataFrame, one row each, in the order in which they were recorded.

    Args:
        trace: the log of a run.

    Returns:
        A DataFrame with the columns lane, category, name (text), start_s, end_s, duration_s (float64, virtual
        seconds) and facts (dicts).

    Raises:
        ModuleNotFoundError: pandas is not installed.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> to_dataframe(trace)[["lane", "duration_s"]].values.tolist()
        [['worker:0', 0.5]]
    """
    with needs("Trace.to_dataframe()", "lab"):
        import pandas  # only who asks for a table needs it
    codes = {"lane": trace.spans.lane, "category": trace.spans.category, "name": trace.spans.name}
    texts = np.array(trace.names.texts, dtype=object)
    words = {key: texts[column] for key, column in codes.items()}
    start_s, end_s = trace.spans.start, trace.spans.end
    facts = [dict(trace.spans.facts_of(row)) for row in range(len(trace.spans))]
    times = {"start_s": start_s, "end_s": end_s, "duration_s": end_s - start_s}
    return pandas.DataFrame({**words, **times, "facts": facts})
