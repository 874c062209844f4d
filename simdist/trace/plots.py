"""Static pictures of the event log.

A lane is a row; work is a bar in the colour of its category; a closure is the pale band behind the work that it
contains; a down time is hatched; an event is a mark with a shape of its own, drawn last, so that nothing covers it (mark_plots.py).
Shapes, units, labels and groups are those of the interactive timeline: both take them from one place or are tested with one table.

Invariants: no pyplot and no global state (a figure belongs to its caller); the same log gives the same picture;
the cost is bounded by the picture and not by the log (boxes.py).

Taught in lesson 00.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from simdist.trace.axes import new_axes, show_names_as_they_are
from simdist.trace.boxes import Boxes, boxes_by_category
from simdist.trace.down_times import unfinished_down_times
from simdist.trace.event_log import EventLog
from simdist.trace.lane_axis import name_rows, row_inch
from simdist.trace.mark_plots import draw_marks, legend_handles
from simdist.trace.styles import SPAN_STYLES, span_style
from simdist.trace.time_axis import set_time_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["EMPTY_TEXT", "lane_names", "timeline"]

EMPTY_TEXT = "Nothing has happened on this cluster yet. Run something on it, then show its timeline again."
BAND_HEIGHT, WORK_HEIGHT = 0.84, 0.50  # of a lane
DOWN_LEVEL, DOWN = 3, "down"
MARGIN = 0.015  # of the run, on both sides
WIDTH_INCH, PLOT_PX = 10.0, 880.0  # of a picture, and of its lanes (100 CSS pixels are an inch)
LEGEND_PX, ENTRY_PX, CHARACTER_PX = 920.0, 34.0, 6.8  # of a legend, of the sign of an entry with the gaps, and of its letters
MOST_COLUMNS, LONGEST_NAME = 9, 60


def lane_names(trace: EventLog) -> list[str]:
    """The lanes of a picture: those that were declared, then others in the order in which the log names them.

    The lanes of a task's parts (its devices, its network) follow that of the task, whenever they were named: their labels do not
    repeat whose part they are.

    Args:
        trace: the log.

    Returns:
        Names without repetition.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> trace.declare_lane("worker:1")
        >>> for lane in ("worker:0", "worker:1/network"):
        ...     _ = trace.span(lane, "compute", "step", 0.0, 1.0)
        >>> lane_names(trace)
        ['worker:1', 'worker:1/network', 'worker:0']
    """
    lanes = dict.fromkeys([*trace.lanes, *trace.spans.lanes(), *(instant.lane for instant in trace.instants)])
    tasks: dict[str, int] = {}  # by their first lane
    places = {lane: (tasks.setdefault(lane.partition("/")[0], len(tasks)), "/" in lane) for lane in lanes}
    return sorted(lanes, key=places.__getitem__)


def timeline(trace: EventLog, ax: Axes | None = None, view_s: Sequence[float] = ()) -> Figure | SubFigure:
    """Draws the log: one lane per task, virtual time to the right, faults and recoveries as named marks.

    Args:
        trace: the log of a cluster.
        ax: the matplotlib axes to draw on (default: those of a new figure, with a height that fits the lanes).
        view_s: where the picture begins and ends, virtual seconds (default: the whole run).

    Returns:
        The matplotlib ``Figure``.

    Raises:
        TypeError: `trace` is not a Trace.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> [text.get_text() for text in timeline(trace).axes[0].get_xticklabels()]
        ['0 ms', '100 ms', '200 ms', '300 ms', '400 ms', '500 ms']
    """
    if not isinstance(trace, EventLog):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"timeline: expected a Trace, got {type(trace).__name__}; pass cluster.trace.")
    lanes = lane_names(trace)
    lane_inch = row_inch(len(lanes))
    ax = new_axes("A picture of a trace", WIDTH_INCH, 1.25 + max(len(lanes), 1) * lane_inch) if ax is None else ax
    _draw_frame(ax, lanes, lane_inch)
    _draw_view(ax, view_s or _whole(trace))
    drawn = _draw_spans(ax, trace, lanes)
    draw_marks(ax, trace, lanes, width_px=PLOT_PX, lane_px=lane_inch * 100)
    _draw_legend(ax, drawn, trace)
    if not len(trace.spans) and not len(trace.instants):
        ax.text(0.5, 0.5, EMPTY_TEXT, transform=ax.transAxes, ha="center", va="center", fontsize=10)
    return ax.figure


def _whole(trace: EventLog) -> tuple[float, float]:
    """The view of a whole run, as the interactive timeline begins with."""
    first_s = min(0.0, trace.spans.start.min(initial=0.0), min((instant.time_s for instant in trace.instants), default=0.0))
    margin_s = ((trace.end_s() - first_s) or 1.0) * MARGIN
    return first_s - margin_s, first_s + margin_s * (1 + 1 / MARGIN)


def _draw_frame(ax: Axes, lanes: list[str], lane_inch: float) -> None:
    name_rows(ax, lanes, lane_inch)
    ax.set_axisbelow(True)
    ax.grid(axis="x", color="#e3e6ea", linewidth=0.8)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_view(ax: Axes, view_s: Sequence[float]) -> None:
    """Shows a stretch of time; the ticks follow it when it is changed later."""
    ax.set_xlim(view_s[0], view_s[1])
    set_time_ticks(ax, PLOT_PX)
    ax.callbacks.connect("xlim_changed", lambda changed: set_time_ticks(changed, PLOT_PX))


def _draw_spans(ax: Axes, trace: EventLog, lanes: list[str]) -> list[str]:
    """Adds one collection per category; returns the categories that occur, in the order of the legend."""
    boxes = boxes_by_category(trace, lanes)
    unfinished = unfinished_down_times(trace)
    if unfinished:
        rows = np.array([lanes.index(lane) for lane in unfinished])
        never = Boxes(rows, np.array(list(unfinished.values())), np.full(len(rows), trace.end_s()))
        boxes[DOWN] = boxes[DOWN].joined(never) if DOWN in boxes else never
    ordered = [name for name in SPAN_STYLES if name in boxes] + [name for name in boxes if name not in SPAN_STYLES]
    for category in ordered:
        _add_boxes(ax, category, boxes[category])
    return ordered


def _add_boxes(ax: Axes, category: str, boxes: Boxes) -> None:
    from matplotlib.collections import PolyCollection  # only who draws needs matplotlib

    style = span_style(category)
    half = (WORK_HEIGHT if style.level == 1 else BAND_HEIGHT) / 2
    end_s = np.maximum(boxes.end_s, boxes.start_s + np.ptp(ax.get_xlim()) / PLOT_PX)  # a pixel at least: spans may take no time
    x = np.stack([boxes.start_s, boxes.start_s, end_s, end_s], axis=1)
    y = boxes.row[:, None] + np.array([-half, half, half, -half])
    band, down = style.level == 0, style.level >= DOWN_LEVEL
    zorder = 2 + style.level / 10
    # n boxes x 4 corners x (time, row). matplotlib draws one array faster than a list of them, but its types know lists only.
    corners = cast("Sequence[np.ndarray]", np.stack([x, y], axis=2))
    collection = PolyCollection(
        corners,
        facecolor="#fbe9e8" if down else style.color,
        edgecolor=style.color if down else "white",
        linewidth=0.6 if band else 0.0,
        alpha=0.30 if band else None,
        hatch="/////" if down else None,
        zorder=zorder,
        antialiased=True,
        label=category,
    )
    ax.add_collection(collection, autolim=False)


def _draw_legend(ax: Axes, categories: list[str], trace: EventLog) -> None:
    from matplotlib.legend_handler import HandlerTuple  # only who draws needs matplotlib
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for category in categories:
        style = span_style(category)
        if style.level >= DOWN_LEVEL:
            handles.append(Patch(facecolor="#fbe9e8", edgecolor=style.color, hatch="////", linewidth=0))
        else:
            handles.append(Patch(facecolor=style.color, alpha=0.30 if style.level == 0 else 1.0))
    marks = legend_handles(trace)
    if not handles and not marks:
        return
    names = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in (*categories, *marks)]
    legend = ax.legend(
        handles=[*handles, *marks.values()],
        labels=names,
        handler_map={tuple: HandlerTuple()},
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=_columns(names),
        frameon=False,
        fontsize=8.5,
        handlelength=1.2,
        columnspacing=1.2,
        handletextpad=0.5,
    )
    show_names_as_they_are(legend)


def _columns(names: Sequence[str]) -> int:
    """The most columns with which a legend is no wider than the picture: a wider one is cut off, and takes the room of the lanes."""
    most = min(len(names), MOST_COLUMNS)
    lengths = np.array([len(name) for name in names])
    for count in range(most, 1, -1):  # filled one after the other, as matplotlib does
        if sum(ENTRY_PX + CHARACTER_PX * column.max() for column in np.array_split(lengths, count)) <= LEGEND_PX:
            return count
    return 1
