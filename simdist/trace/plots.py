"""Static pictures of the event log.

A lane is a row; work is a bar in the colour of its category; a closure is the pale band behind the work that it
contains; a down time is hatched; an event is a mark with a shape of its own, drawn last, so that nothing covers it.

Invariants: no pyplot and no global state (a figure belongs to its caller); the same log gives the same picture;
the cost is bounded by the picture and not by the log (boxes.py).

Taught in lesson 00.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from simdist.trace.axes import new_axes
from simdist.trace.boxes import Boxes, boxes_by_category
from simdist.trace.event_log import EventLog
from simdist.trace.records import Instant
from simdist.trace.styles import MARK_STYLES, SPAN_STYLES, mark_style, span_style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["lane_names", "timeline"]


BAND_HEIGHT, WORK_HEIGHT = 0.84, 0.50  # of a lane
LABEL_ROOM = 0.085  # of the run, that the name of a mark takes
DOWN_LEVEL = 3


def lane_names(trace: EventLog) -> list[str]:
    """The lanes of a picture: those that were declared, then others in the order in which the log names them.

    Args:
        trace: the log.

    Returns:
        Names without repetition.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> trace.declare_lane("worker:1")
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 1.0)
        >>> lane_names(trace)
        ['worker:1', 'worker:0']
    """
    return list(dict.fromkeys([*trace.lanes, *trace.spans.lanes(), *(instant.lane for instant in trace.instants)]))


def timeline(trace: EventLog, ax: Axes | None = None) -> Figure | SubFigure:
    """Draws the log: one lane per task, virtual time to the right, faults and recoveries as named marks.

    Args:
        trace: the log of a cluster.
        ax: the matplotlib axes to draw on (default: those of a new figure, with a height that fits the lanes).

    Returns:
        The matplotlib ``Figure``.

    Raises:
        TypeError: `trace` is not a Trace.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> timeline(trace).axes[0].get_xlabel()
        'virtual time (s)'
    """
    if not isinstance(trace, EventLog):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"timeline: expected a Trace, got {type(trace).__name__}; pass cluster.trace.")
    lanes = lane_names(trace)
    ax = _new_axes(len(lanes)) if ax is None else ax
    _draw_frame(ax, lanes, trace.end_s())
    drawn = _draw_spans(ax, trace, lanes)
    _draw_marks(ax, trace, lanes)
    _draw_legend(ax, drawn, trace)
    return ax.figure


def _new_axes(lanes: int) -> Axes:
    height_inch = 1.25 + min(max(lanes, 1) * 0.42, 12.0)
    return new_axes("A picture of a trace", 10.0, height_inch)


def _draw_frame(ax: Axes, lanes: list[str], end_s: float) -> None:
    margin = (end_s or 1.0) * 0.012
    ax.set(xlim=(-margin, (end_s or 1.0) + margin), ylim=(len(lanes) - 0.4 if lanes else 0.6, -0.6))
    every = max(1, len(lanes) // 30)
    ax.set_yticks(range(0, len(lanes), every), lanes[::every])
    ax.set_xlabel("virtual time (s)")
    ax.set_axisbelow(True)
    ax.grid(axis="x", color="#e3e6ea", linewidth=0.8)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_spans(ax: Axes, trace: EventLog, lanes: list[str]) -> list[str]:
    """Adds one collection per category; returns the categories that occur, in the order of the legend."""
    boxes = boxes_by_category(trace, lanes)
    ordered = [name for name in SPAN_STYLES if name in boxes] + [name for name in boxes if name not in SPAN_STYLES]
    for category in ordered:
        _add_boxes(ax, category, boxes[category])
    return ordered


def _add_boxes(ax: Axes, category: str, boxes: Boxes) -> None:
    from matplotlib.collections import PolyCollection  # only who draws needs matplotlib

    style = span_style(category)
    half = (WORK_HEIGHT if style.level == 1 else BAND_HEIGHT) / 2
    x = np.stack([boxes.start_s, boxes.start_s, boxes.end_s, boxes.end_s], axis=1)
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


def _draw_marks(ax: Axes, trace: EventLog, lanes: list[str]) -> None:
    row_of_lane = {lane: row for row, lane in enumerate(lanes)}
    by_category: dict[str, list[Instant]] = {}
    for instant in trace.instants:
        by_category.setdefault(instant.category, []).append(instant)
    for category, instants in by_category.items():
        style = mark_style(category)
        note = style.level == 0
        ax.scatter(
            [instant.time_s for instant in instants],
            [row_of_lane[instant.lane] + (0.33 if note else 0.0) for instant in instants],
            s=14 if note else 90,
            marker=style.marker,
            color=style.color,
            linewidths=0.9,
            zorder=4 + style.level,
            label=category,
            edgecolors=None if style.marker == "|" else "white",
        )
    _name_marks(ax, trace, row_of_lane)


def _name_marks(ax: Axes, trace: EventLog, row_of_lane: dict[str, int]) -> None:
    """Writes the category beside each mark that has room before the next one of its lane."""
    end_s = trace.end_s()
    room_s = (end_s or 1.0) * LABEL_ROOM
    next_s: dict[str, float] = {}
    for instant in sorted(trace.instants, key=lambda instant: -instant.time_s):
        if mark_style(instant.category).level == 0:
            continue
        if min(next_s.get(instant.lane, np.inf), end_s + room_s) - instant.time_s >= room_s:
            ax.annotate(
                instant.category,
                (instant.time_s, row_of_lane[instant.lane]),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                fontweight="bold",
                zorder=9,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            )
        next_s[instant.lane] = instant.time_s


def _draw_legend(ax: Axes, categories: list[str], trace: EventLog) -> None:
    from matplotlib.lines import Line2D  # only who draws needs matplotlib
    from matplotlib.patches import Patch

    handles: list[Artist] = []
    for category in categories:
        style = span_style(category)
        if style.level >= DOWN_LEVEL:
            handles.append(Patch(facecolor="#fbe9e8", edgecolor=style.color, hatch="////", linewidth=0, label=category))
        else:
            handles.append(Patch(facecolor=style.color, alpha=0.30 if style.level == 0 else 1.0, label=category))
    present = {instant.category for instant in trace.instants}
    for category in [name for name in MARK_STYLES if name in present] + sorted(present - MARK_STYLES.keys()):
        style = mark_style(category)
        handles.append(Line2D([], [], label=category, marker=style.marker, color=style.color, linestyle="none", markersize=7))
    if handles:
        ax.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, 1.0 + 0.62 / max(len(ax.get_yticks()), 1) + 0.04),
            ncols=min(len(handles), 9),
            frameon=False,
            fontsize=8.5,
            handlelength=1.2,
            columnspacing=1.2,
            handletextpad=0.5,
        )
