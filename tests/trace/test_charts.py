"""Charts: the bars and lines hold the numbers that the other views give."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from fresh_python import run_beside_engine
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


def bars(figure: Any) -> list[tuple[float, float, float, float]]:
    """The left, lower, right and upper end of each bar."""
    (drawn,) = (artist for artist in figure.axes[0].collections if isinstance(artist, PolyCollection))
    return [path.get_extents().extents.tolist() for path in drawn.get_paths()]


def test_staleness_has_a_bar_for_each_count(trace: Trace) -> None:
    figure = trace.staleness()
    assert bars(figure) == [pytest.approx((-0.4, 0.0, 0.4, 1.0)), pytest.approx((0.6, 0.0, 1.4, 1.0))]
    (left, right), (low, high) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert left < -0.4 < 1.4 < right and low == 0.0 and high > 1.0


def test_utilisation_has_a_bar_for_each_task_in_percent(trace: Trace) -> None:
    figure = trace.utilisation()
    assert bars(figure) == [pytest.approx((0.0, row - 0.4, share, row + 0.4)) for row, share in enumerate((25.0, 25.0, 50.0))]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["worker:0", "worker:1", "ps:0"]


def trace_of(tasks: int) -> Trace:
    trace = Trace()
    for worker in range(tasks):
        trace.span(f"worker:{worker}", "compute", "step", 0.0, 1.0 + worker)
    return trace


@pytest.mark.parametrize("tasks", [1, 3, 20, 60, 500, 2000])
@pytest.mark.sample(2)
def test_utilisation_of_many_tasks_can_be_read(tasks: int) -> None:
    """Names do not overlap, and all tasks are there, however many there are: the picture grows, to a bound."""
    figure = trace_of(tasks).utilisation()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(upper.y0 >= lower.y1 - 1.0 for upper, lower in pairwise(boxes))
    assert len(boxes) == tasks or len(boxes) > 40
    assert len(bars(figure)) == tasks
    assert figure.get_figheight() < 13.0


def test_utilisation_on_low_axes_names_as_many_tasks_as_fit() -> None:
    figure = Figure(figsize=(4.0, 2.0))
    trace_of(200).utilisation(ax=figure.add_subplot())
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert 5 < len(boxes) < 20 and all(upper.y0 >= lower.y1 - 1.0 for upper, lower in pairwise(boxes))


@pytest.mark.parametrize("chart", [charts.utilisation, charts.staleness])
def test_many_bars_are_one_artist(chart: Callable[..., Any]) -> None:
    trace = trace_of(300)
    for version in range(300):
        trace.span("ps:0", "apply", "sgd", version, version + 1.0, version=version + 1, read_version=0)
    ax = chart(trace).axes[0]
    assert len(ax.get_children()) < 20 and len(ax.get_yticks()) < 150


def test_queue_is_a_step_line_to_the_end_of_the_run(trace: Trace) -> None:
    (line,) = trace.queue().axes[0].lines
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.5, 2.0, 4.0], [2.0, 1.0, 1.0])
    assert (line.get_label(), line.get_drawstyle()) == ("chief:0", "steps-post")


@pytest.mark.parametrize("queues", [8, 9, 60, 5000])
def test_of_many_queues_the_longest_are_named_and_the_others_are_one_artist(queues: int) -> None:
    trace = Trace()
    for number in range(queues):
        trace.counter(f"chief:{number}", "queue", 0.0, float(number))
        trace.counter(f"chief:{number}", "queue", 2.0, 1.0)
    trace.span("worker:0", "compute", "step", 0.0, 3.0)
    figure = trace.queue()
    (ax,) = figure.axes
    FigureCanvasAgg(figure).draw()
    named = 8 if queues == 8 else 7
    others = [] if queues == 8 else [f"{queues - 7} others"]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == others + [f"chief:{number}" for number in range(queues - named, queues)]
    assert ax.get_legend().get_window_extent().height < ax.get_window_extent().height
    for collection in ax.collections:
        length = queues - 8
        assert np.asarray(collection.get_paths()[-1].vertices).tolist() == [[0, length], [2, length], [2, 1], [3, 1], [3, 1]]
    assert ax.get_ylim()[1] >= queues - 1


@pytest.mark.parametrize("values", [[0, 1, 19], range(100), [0, 1, 3000]], ids=str)
def test_values_of_staleness_keep_their_labels_apart_and_each_can_be_seen(values: Sequence[int]) -> None:
    trace = Trace()
    for value in values:
        trace.span("ps:0", "apply", "sgd", value, value + 1.0, version=value + 1, read_version=0)
    figure = trace.staleness()
    ticks = figure.axes[0].get_xticks()
    assert len(bars(figure)) == len(values)
    assert len(ticks) <= 20 and len(set(np.diff(ticks))) == 1
    assert all(right - left >= values[-1] / 700 for left, _, right, _ in bars(figure)), "a pixel at least"


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
    assert run_beside_engine(code).returncode == 0
