"""What every task did and when, as one lane per task that can be zoomed down to a nanosecond.

The widget is a snapshot of the trace at the moment of its making. It draws a million spans in a frame, because each
lane is a row of pixels; faults, retries and restarts stay visible at any zoom.

Taught in lesson 00.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import traitlets

from simdist.trace import Trace
from simdist.trace.plots import timeline
from simdist_widgets.base import BaseWidget
from simdist_widgets.host_page import text_of
from simdist_widgets.shown_time import checked_view_s
from simdist_widgets.trace_bytes import encode


@runtime_checkable
class _Traced(Protocol):
    """A cluster, and what else has a trace."""

    @property
    def trace(self) -> object: ...


class Timeline(BaseWidget):
    """The timeline of a run.

    Args:
        trace: the log of a cluster, usually ``cluster.trace``.
        start_s: where the view begins, virtual seconds (default: the start of the run).
        end_s: where the view ends, virtual seconds (default: the end of the run).

    Raises:
        TypeError: `trace` is not a Trace.
        ValueError: `end_s` is not after `start_s`.

    Example:
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> _ = trace.instant("worker:0", "crash", "crash of worker:0", 0.5)
        >>> Timeline(trace)
        Timeline(1 lane, 1 span, 1 crash, 0.500000 virtual seconds)
    """

    page_name = "timeline"
    page_traits = ("header", "data", "view_s")
    _esm = text_of("timeline.js")
    _css = text_of("timeline.css")

    header = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes().tag(sync=True)
    view_s = traitlets.List(traitlets.Float()).tag(sync=True)
    """What is in view: [start, end] in virtual seconds, or [] for the whole run; the reader's zooming sets it too."""

    def __init__(self, trace: Trace, *, start_s: float | None = None, end_s: float | None = None) -> None:
        if not isinstance(trace, Trace):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = type(trace).__name__
            hint = f"pass {given.lower()}.trace" if isinstance(trace, _Traced) else "pass cluster.trace"
            raise TypeError(f"Timeline: expected a Trace, got {given}; {hint}.")
        view_s = _view(trace, start_s, end_s)
        header, data = encode(trace)
        self._trace = trace
        self._summary = _summary(trace, header)
        super().__init__(header=header, data=data, view_s=view_s)

    @traitlets.validate("view_s")
    def _check_view_s(self, proposal: Any) -> list[float]:
        return checked_view_s("Timeline", proposal["value"])

    def picture(self) -> Any:
        """The timeline as a matplotlib ``Figure``, of the same stretch of time."""
        return timeline(self._trace, view_s=self.view_s)

    def __repr__(self) -> str:
        return self._summary


def _view(trace: Trace, start_s: float | None, end_s: float | None) -> list[float]:
    if start_s is None and end_s is None:
        return []
    view_s = [0.0 if start_s is None else float(start_s), trace.end_s() if end_s is None else float(end_s)]
    if not view_s[1] > view_s[0]:
        raise ValueError(f"Timeline: end_s must be after start_s; given start_s={start_s}, end_s={end_s}.")
    return view_s


def _summary(trace: Trace, header: dict[str, Any]) -> str:
    counts = {mark["name"]: 0 for mark in header["marks"] if mark["level"] > 0}
    for instant in trace.instants:
        if instant.category in counts:
            counts[instant.category] += 1
    events = [_count(count, name) for name, count in counts.items()]
    parts = [_count(len(header["lanes"]), "lane"), _count(len(trace.spans), "span"), *events]
    return f"Timeline({', '.join(parts)}, {trace.end_s():.6f} virtual seconds)"


def _count(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun == "retry" else f"{noun}es" if noun == "crash" else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
