"""The event log: recording what happened, and the views of it.

Recording and the summary's text come with this package; digest, exports and pictures are loaded when a `Trace` is
asked for them.
"""

from simdist.trace.records import Counter, Instant, Span, Trace
from simdist.trace.summary import format_summary

__all__ = ["Counter", "Instant", "Span", "Trace", "format_summary"]
