"""Names with dollar signs are names in every picture of a trace, and no formulas."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from simdist.trace import Trace, charts
from simdist.trace.plots import timeline

NAME = r"$\frac$"


@pytest.mark.parametrize(("draw", "times"), [(timeline, 4), (charts.utilisation, 1), (charts.queue, 1)])
def test_names_are_drawn_as_they_are(draw: Callable[[Trace], Any], times: int) -> None:
    trace = Trace()
    trace.span(NAME, "compute", NAME, 0.0, 1.0)
    trace.span(NAME, NAME, NAME, 1.0, 1.5)
    trace.instant(NAME, NAME, NAME, 0.5)
    trace.instant(NAME, "crash", NAME, 0.7)
    trace.counter(NAME, "queue", 0.0, 1.0)
    figure = draw(trace)
    FigureCanvasAgg(figure).print_png(io.BytesIO())
    found = [text for text in figure.findobj(Text) if NAME in text.get_text() and text.get_visible()]
    assert len(found) >= times and not any(text.get_parse_math() for text in found)
