from __future__ import annotations

import warnings

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fresh_python import run_beside_engine
from simdist.trace import Trace
from simdist.trace.boxes import PARTS, boxes_by_category
from simdist.trace.plots import EMPTY_TEXT, lane_names, timeline
from simdist.trace.styles import MARK_STYLES, SPAN_STYLES, mark_style, span_style


@pytest.fixture
def trace() -> Trace:
    trace = Trace(seed=0)
    for lane in ("chief:0", "worker:0", "worker:1"):
        trace.declare_lane(lane)
    trace.span("worker:1", "compute", "step", 0.0, 1.0)
    trace.span("worker:1", "closure", "closure 0", 0.0, 1.2)
    trace.span("worker:1", "down", "down", 1.2, 3.0)
    trace.instant("worker:1", "crash", "crash of worker:1", 1.2)
    trace.instant("worker:0", "retry", "closure 0 again", 1.5)
    trace.instant("worker:1", "restart", "worker:1 is back", 3.0)
    trace.span("worker:0", "compute", "step", 1.5, 4.0)
    return trace


def boxes(figure: Figure) -> dict[str, PolyCollection]:
    return {str(c.get_label()): c for c in figure.axes[0].collections if isinstance(c, PolyCollection)}


def marks(figure: Figure) -> dict[str, PathCollection]:
    return {str(c.get_label()): c for c in figure.axes[0].collections if isinstance(c, PathCollection)}


def test_lanes_are_rows_in_their_declared_order(trace: Trace) -> None:
    ax = timeline(trace).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["chief:0", "worker:0", "worker:1"]
    assert ax.yaxis_inverted()


def test_undeclared_lanes_follow_in_order_of_appearance() -> None:
    trace = Trace()
    trace.declare_lane("ps:0")
    trace.span("worker:1", "compute", "step", 0.0, 1.0)
    trace.span("worker:0", "compute", "step", 0.0, 1.0)
    trace.instant("chief:0", "crash", "crash", 0.5)
    assert lane_names(trace) == ["ps:0", "worker:1", "worker:0", "chief:0"]


def test_lanes_of_parts_follow_their_task() -> None:
    trace = Trace()
    for lane in ("worker:0", "worker:1", "worker:0/network", "worker:1/gpu:0", "worker:1/gpu:1", "worker:1/network"):
        trace.span(lane, "compute", "step", 0.0, 1.0)
    assert [lane.partition("/")[0] for lane in lane_names(trace)] == ["worker:0"] * 2 + ["worker:1"] * 4
    assert [label.get_text() for label in timeline(trace).axes[0].get_yticklabels()][-3:] == ["gpu:0", "gpu:1", "network"]


def test_spans_are_boxes_at_their_times_in_their_colour(trace: Trace) -> None:
    compute = boxes(timeline(trace))["compute"]
    assert [path.get_extents().intervalx.tolist() for path in compute.get_paths()] == [[0.0, 1.0], [1.5, 4.0]]
    assert [round(float(path.get_extents().intervaly.mean())) for path in compute.get_paths()] == [2, 1]
    assert to_hex(compute.get_facecolor()[0]) == SPAN_STYLES["compute"].color


def test_work_is_drawn_over_closures_and_down_times_are_hatched(trace: Trace) -> None:
    drawn = boxes(timeline(trace))
    assert drawn["closure"].get_zorder() < drawn["compute"].get_zorder() < drawn["down"].get_zorder()
    assert drawn["down"].get_hatch()
    assert not drawn["compute"].get_hatch()


def test_faults_are_named_marks_above_everything_else(trace: Trace) -> None:
    figure = timeline(trace)
    assert np.asarray(marks(figure)["crash"].get_offsets()).tolist() == [[1.2, 2.0]]
    assert np.asarray(marks(figure)["retry"].get_offsets()).tolist() == [[1.5, 1.0]]
    assert marks(figure)["crash"].get_zorder() > max(box.get_zorder() for box in boxes(figure).values())
    assert {text.get_text() for text in figure.axes[0].texts} == {"crash", "retry", "restart"}


def test_name_of_a_mark_is_left_out_where_the_next_mark_is_too_near(trace: Trace) -> None:
    trace.instant("worker:1", "retry", "again", 3.05)
    assert "restart" not in {text.get_text() for text in timeline(trace).axes[0].texts}


def test_legend_names_what_occurs_and_nothing_else(trace: Trace) -> None:
    legend = timeline(trace).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        "closure", "compute", "down", "crash", "retry", "restart",
    ]  # fmt: skip


def test_axis_carries_its_unit(trace: Trace) -> None:
    ax = timeline(trace).axes[0]
    assert ax.get_xlabel() == "virtual time"
    assert [label.get_text() for label in ax.get_xticklabels()][:3] == ["0.0 s", "0.5 s", "1.0 s"]


def test_axis_follows_a_view_that_is_set_later(trace: Trace) -> None:
    ax = timeline(trace).axes[0]
    ax.set_xlim(1.0, 1.002)
    assert [label.get_text() for label in ax.get_xticklabels()][:2] == ["1000.0 ms", "1000.5 ms"]


def test_marks_that_would_touch_are_one_mark_that_shows_the_most_serious() -> None:
    trace = Trace()
    for number, category in enumerate(["retry", "crash", "restart"]):
        trace.instant("worker:0", category, category, 1.0 + number * 1e-4)
    trace.span("worker:0", "compute", "step", 0.0, 4.0)
    figure = timeline(trace)
    assert np.asarray(marks(figure)["crash"].get_offsets()).tolist() == [[1.0, 0.0]]
    assert {text.get_text() for text in figure.axes[0].texts} == {"crash +2"}


def test_span_that_takes_no_time_is_a_pixel_wide() -> None:
    trace = Trace()
    trace.span("ps:0", "apply", "update", 0.5, 0.5)
    trace.span("ps:0", "compute", "step", 1.0, 2.0)
    (path,) = boxes(timeline(trace))["apply"].get_paths()
    assert path.get_extents().width == pytest.approx(2.06 / 880)


def test_task_that_is_not_restarted_is_down_to_the_end(trace: Trace) -> None:
    trace.instant("worker:0", "crash", "crash of worker:0", 2.0)
    (ends,) = [path.get_extents().intervalx.tolist() for path in boxes(timeline(trace))["down"].get_paths() if path.vertices[0][1] < 1.5]
    assert ends == [2.0, 4.0]


def test_given_axes_are_used(trace: Trace) -> None:
    ax = Figure().add_subplot()
    assert timeline(trace, ax=ax) is ax.figure
    assert boxes(ax.figure)


def test_empty_trace_says_so() -> None:
    figure = timeline(Trace())
    assert boxes(figure) == {}
    assert figure.axes[0].get_legend() is None
    assert [text.get_text() for text in figure.axes[0].texts] == [EMPTY_TEXT]


def test_devices_stand_below_their_task_with_their_part_of_the_name() -> None:
    trace = Trace()
    for lane in ("worker:0", "worker:0/gpu:1"):
        trace.declare_lane(lane)
    task, device = timeline(trace).axes[0].get_yticklabels()
    assert (task.get_text(), device.get_text()) == ("worker:0", "gpu:1")
    assert device.get_fontsize() < task.get_fontsize()


def test_unknown_category_is_drawn_in_a_colour_of_its_own() -> None:
    trace = Trace()
    trace.span("worker:0", "dreaming", "sheep", 0.0, 1.0)
    trace.instant("worker:0", "surprise", "boo", 0.5)
    figure = timeline(trace)
    assert to_hex(boxes(figure)["dreaming"].get_facecolor()[0]) == span_style("dreaming").color
    assert "surprise" in marks(figure)


def test_every_category_draws_without_a_warning() -> None:
    trace = Trace()
    for number, category in enumerate(SPAN_STYLES):
        trace.span("worker:0", category, category, number, number + 1)
    for number, category in enumerate(MARK_STYLES):
        trace.instant("worker:0", category, category, float(number))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        timeline(trace).canvas.draw()


def test_colours_and_markers_differ_between_categories() -> None:
    assert len({style.color for style in SPAN_STYLES.values()}) == len(SPAN_STYLES)
    assert len({(style.glyph.body, style.glyph.sign) for style in MARK_STYLES.values()}) == len(MARK_STYLES)
    assert mark_style("crash").level > mark_style("retry").level > mark_style("place").level


def test_something_else_than_a_trace_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a Trace, got list; pass cluster\.trace"):
        timeline([])  # type: ignore[arg-type]


def many_short_spans(lanes: int, per_lane: int) -> Trace:
    trace = Trace()
    for lane in range(lanes):
        for step in range(per_lane):
            trace.span(f"worker:{lane}", "compute", "step", step, step + 0.7)
            trace.span(f"worker:{lane}", "update", "update", step + 0.7, step + 0.9)
    return trace


def test_many_short_spans_become_few_boxes_of_what_took_most_time() -> None:
    trace = many_short_spans(lanes=2, per_lane=10_000)
    trace.span("worker:1", "read", "long read", 100.0, 900.0)
    drawn = boxes_by_category(trace, lane_names(trace))
    assert drawn["compute"].row.tolist() == [0, 1]
    assert len(drawn["update"].row) == 0
    assert (drawn["read"].start_s.tolist(), drawn["read"].end_s.tolist()) == ([100.0], [900.0])
    assert drawn["compute"].end_s.max() == pytest.approx(trace.end_s())


def test_idle_time_stays_idle_when_spans_are_merged() -> None:
    trace = Trace()
    for step in range(PARTS + 1):
        trace.span("worker:0", "compute", "step", step * 1e-4, (step + 1) * 1e-4)
    trace.span("worker:0", "compute", "last", 999.9, 1000.0)
    drawn = boxes_by_category(trace, ["worker:0"])["compute"]
    assert drawn.start_s.tolist() == pytest.approx([0.0, 1000.0 - 1000.0 / PARTS])


def test_few_spans_keep_their_exact_times(trace: Trace) -> None:
    assert boxes_by_category(trace, lane_names(trace))["closure"].end_s.tolist() == [1.2]


def test_importing_plots_does_not_import_matplotlib_and_drawing_does_not_touch_pyplot() -> None:
    code = (
        "import sys, simdist.trace.plots; imported = 'matplotlib' in sys.modules;"
        "from simdist.trace import Trace; t = Trace(); t.span('w', 'compute', 's', 0.0, 1.0);"
        "t.timeline(); sys.exit(imported + 2 * ('matplotlib.pyplot' in sys.modules))"
    )
    assert run_beside_engine(code).returncode == 0


@pytest.mark.parametrize("names", [[f"my own category number {i}" for i in range(9)], ["long" * 30, "name" * 80], ["compute", *"abcdefgh"]])
def test_legend_is_no_wider_than_the_picture(names: list[str]) -> None:
    trace = Trace()
    for start, name in enumerate(names):
        trace.span("worker:0", name, "step", float(start), start + 0.5)
    figure = timeline(trace)
    FigureCanvasAgg(figure).draw()
    ax = figure.axes[0]
    legend = ax.get_legend().get_window_extent()
    assert legend.x0 >= 0.0 and legend.x1 <= figure.bbox.x1 and ax.get_window_extent().width > 800.0
