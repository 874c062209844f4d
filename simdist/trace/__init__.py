"""The event log: records of a run, and the views of it.

`Trace` is the log (event_log.py) with its views as methods (trace.py).
"""

from simdist.trace.records import Counter, Instant, Span
from simdist.trace.report import format_summary
from simdist.trace.trace import Trace

__all__ = ["Counter", "Instant", "Span", "Trace", "format_summary"]
