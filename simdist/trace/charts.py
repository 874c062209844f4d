"""Charts of one quantity each: staleness of updates, utilisation of devices, length of queues.

Invariants: as in plots.py, no pyplot and no global state; the same log gives the same picture.

Taught in lesson 00.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from simdist.trace.axes import new_axes, show_names_as_they_are
from simdist.trace.event_log import EventLog
from simdist.trace.lane_axis import name_rows, row_inch
from simdist.trace.staleness import stale_updates
from simdist.trace.styles import SPAN_STYLES
from simdist.trace.summary import utilisation_by_task
from simdist.trace.time_axis import round_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure, SubFigure

__all__ = ["queue", "staleness", "utilisation"]

BAR_COLOR = SPAN_STYLES["compute"].color
GRID_COLOR, OTHERS_COLOR = "#e3e6ea", "#b6bcc4"
MOST_QUEUES = 8  # that a legend names
CHART = "A chart of a trace"
WIDTH_INCH, HEIGHT_INCH = 7.0, 3.2
FRAME_INCH, LOWEST_INCH = 0.7, 0.1  # of the height: for what stands below the rows; at least for the rows
MOST_LABELS, MOST_BARS = 20, 600  # of staleness: below so many values each has a label; more of them are narrower than a pixel
BAR_WIDTH, LOW_INCH = 0.8, 0.03  # of the room of a bar; in lower rows there is no room between bars


def staleness(trace: EventLog, ax: Axes | None = None) -> Figure | SubFigure:
    """Draws how many updates were how stale: a bar for each staleness.

    Args:
        trace: the log of a run.
        ax: the matplotlib axes to draw on (default: those of a new figure).

    Returns:
        The matplotlib ``Figure``.

    Example:
        >>> from simdist.trace import Trace
        >>> staleness(Trace()).axes[0].get_ylabel()
        'updates'
    """
    ax = new_axes(CHART, WIDTH_INCH, HEIGHT_INCH) if ax is None else ax
    values, counts = np.unique(stale_updates(trace).staleness, return_counts=True)
    greatest = int(values.max(initial=0))
    ax.add_collection(_bars(values, counts, max(BAR_WIDTH, greatest / MOST_BARS), SPAN_STYLES["apply"].color, upright=True))
    ax.autoscale_view()
    ax.set_ylim(bottom=0)
    ax.set_xticks(range(0, greatest + 1, 1 if greatest < MOST_LABELS else int(round_step(greatest / 10))))
    _frame(ax, "staleness (updates between read and apply)", "updates", grid="y")
    return ax.figure


def utilisation(trace: EventLog, ax: Axes | None = None) -> Figure | SubFigure:
    """Draws the share of the run in which the devices of each task computed: a bar for each task.

    Args:
        trace: the log of a run.
        ax: the matplotlib axes to draw on (default: those of a new figure).

    Returns:
        The matplotlib ``Figure``.

    Example:
        >>> from simdist.trace import Trace
        >>> utilisation(Trace()).axes[0].get_xlabel()
        'share of the run in which devices compute (%)'
    """
    shares = utilisation_by_task(trace)
    rows = max(len(shares), 1)
    if ax is None:
        ax = new_axes(CHART, WIDTH_INCH, max(HEIGHT_INCH, FRAME_INCH + rows * row_inch(rows)))
    inch = max(ax.bbox.height / ax.figure.dpi, LOWEST_INCH) / rows
    percent = 100.0 * np.array(list(shares.values()), float)
    ax.add_collection(_bars(np.arange(len(shares)), percent, BAR_WIDTH if inch > LOW_INCH else 1.0, BAR_COLOR))
    name_rows(ax, list(shares), inch)
    ax.set_xlim(0, 100)
    _frame(ax, "share of the run in which devices compute (%)", "", grid="x")
    return ax.figure


def queue(trace: EventLog, ax: Axes | None = None) -> Figure | SubFigure:
    """Draws the length of each queue over virtual time, as steps; of very many queues the longest have a name and a colour.

    Args:
        trace: the log of a run.
        ax: the matplotlib axes to draw on (default: those of a new figure).

    Returns:
        The matplotlib ``Figure``.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> trace.counter("chief:0", "queue", 0.0, 3.0)
        >>> queue(trace).axes[0].lines[0].get_label()
        'chief:0'
    """
    ax = new_axes(CHART, WIDTH_INCH, HEIGHT_INCH) if ax is None else ax
    end_s = trace.end_s()
    lines = {lane: _to_the_end(*trace.counters.series(lane, "queue"), end_s) for lane in trace.counters.lanes_of("queue")}
    longest = sorted(lines, key=lambda lane: lines[lane][1].max(), reverse=True)[: MOST_QUEUES - (len(lines) > MOST_QUEUES)]
    others = [line for lane, line in lines.items() if lane not in longest]
    if others:
        _draw_others(ax, others)
    for lane in (lane for lane in lines if lane in longest):
        ax.plot(*lines[lane], drawstyle="steps-post", label=lane, linewidth=1.2)
    if lines:
        show_names_as_they_are(ax.legend(frameon=bool(others), fontsize=8.5, loc="upper right" if others else "best"))
    ax.set_ylim(bottom=0)
    _frame(ax, "virtual time (s)", "closures in the queue", grid="y")
    return ax.figure


def _to_the_end(time_s: np.ndarray, length: np.ndarray, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a queue's steps, whose last length lasts until the run ends."""
    return np.append(time_s, max(end_s, float(time_s[-1]))), np.append(length, length[-1])


def _draw_others(ax: Axes, lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw queues without names, grey, as one artist."""
    from matplotlib.collections import LineCollection

    steps = [np.column_stack([np.repeat(time_s, 2)[1:], np.repeat(length, 2)[:-1]]) for time_s, length in lines]
    ax.add_collection(LineCollection(steps, colors=OTHERS_COLOR, linewidths=0.6, label=f"{len(lines)} others"))


def _bars(positions: np.ndarray, lengths: np.ndarray, thickness: float, color: str, upright: bool = False) -> PolyCollection:
    """Bars from zero to their lengths, which lie, or stand upright; all are one artist, for thousands would take minutes."""
    from matplotlib.collections import PolyCollection

    low, high, zero = positions - thickness / 2, positions + thickness / 2, np.zeros(len(positions))
    corners = np.stack([zero, low, lengths, low, lengths, high, zero, high], axis=1).reshape(-1, 4, 2)
    return PolyCollection(list(corners[:, :, ::-1] if upright else corners), facecolors=color, linewidths=0)


def _frame(ax: Axes, x_label: str, y_label: str, grid: Literal["x", "y"]) -> None:
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=GRID_COLOR, linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
