"""Charts: the bars and lines hold the numbers that the other views give."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from simdist.trace import Trace, charts

CHARTS: list[Callable[..., Any]] = [charts.staleness, charts.utilisation, charts.queue]


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    for worker in ("worker:0", "worker:1"):
        trace.span(worker, "read", "read", 0.0, 1.0)
        trace.span(worker, "compute", "step", 1.0, 2.0)
    trace.span("ps:0", "apply", "sgd", 2.0, 3.0, worker="worker:0")
    trace.span("ps:0", "apply", "sgd", 3.0, 4.0, worker="worker:1")
    trace.counter("chief:0", "queue", 0.5, 2.0)
    trace.counter("chief:0", "queue", 2.0, 1.0)
    return trace


def bars(figure: Figure) -> list[Rectangle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def test_staleness_has_a_bar_for_each_count(trace: Trace) -> None:
    drawn = bars(trace.staleness())
    assert [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in drawn] == [(0.0, 1.0), (1.0, 1.0)]


def test_utilisation_has_a_bar_for_each_task_in_percent(trace: Trace) -> None:
    figure = trace.utilisation()
    assert [bar.get_width() for bar in bars(figure)] == [25.0, 25.0, 50.0]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["worker:0", "worker:1", "ps:0"]


def test_queue_is_a_step_line_to_the_end_of_the_run(trace: Trace) -> None:
    (line,) = trace.queue().axes[0].lines
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.5, 2.0, 4.0], [2.0, 1.0, 1.0])
    assert (line.get_label(), line.get_drawstyle()) == ("chief:0", "steps-post")


def test_many_values_of_staleness_keep_their_labels_apart() -> None:
    trace = Trace()
    for version in range(100):
        trace.span("ps:0", "apply", "sgd", version, version + 1.0, version=version + 1, read_version=0)
    figure = trace.staleness()
    assert len(bars(figure)) == 100
    assert len(figure.axes[0].get_xticks()) <= 10


@pytest.mark.parametrize("chart", CHARTS)
def test_given_axes_are_used(chart: Callable[..., Any], trace: Trace) -> None:
    ax = Figure().add_subplot()
    assert chart(trace, ax=ax) is ax.figure
    assert ax.has_data()


@pytest.mark.parametrize("chart", CHARTS)
def test_empty_trace_draws_without_a_warning(chart: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chart(Trace()).canvas.draw()


def test_drawing_does_not_touch_pyplot() -> None:
    code = (
        "import sys; from simdist.trace import Trace; t = Trace(); t.queue(); t.staleness(); t.utilisation();"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
