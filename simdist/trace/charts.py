"""Charts of one quantity each: staleness of updates, utilisation of devices, length of queues.

Invariants: as in plots.py, no pyplot and no global state; the same log gives the same picture.

Taught in lesson 00.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from simdist.trace.axes import new_axes, show_names_as_they_are
from simdist.trace.event_log import EventLog
from simdist.trace.staleness import stale_updates
from simdist.trace.styles import SPAN_STYLES
from simdist.trace.summary import utilisation_by_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["queue", "staleness", "utilisation"]

BAR_COLOR = SPAN_STYLES["compute"].color
GRID_COLOR = "#e3e6ea"


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
    ax = new_axes("A chart of a trace", 7.0, 3.2) if ax is None else ax
    values, counts = np.unique(stale_updates(trace).staleness, return_counts=True)
    ax.bar(values, counts, color=SPAN_STYLES["apply"].color)
    ax.set_xticks(range(int(values.max(initial=0)) + 1) if len(values) < 20 else values[:: len(values) // 10])
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
    ax = new_axes("A chart of a trace", 7.0, 3.2) if ax is None else ax
    shares = utilisation_by_task(trace)
    places = range(len(shares))
    ax.barh(places, [100 * share for share in shares.values()], color=BAR_COLOR)
    ax.set_yticks(places, list(shares), parse_math=False)
    ax.set(xlim=(0, 100), ylim=(len(shares) - 0.4 if shares else 0.6, -0.6))
    _frame(ax, "share of the run in which devices compute (%)", "", grid="x")
    return ax.figure


def queue(trace: EventLog, ax: Axes | None = None) -> Figure | SubFigure:
    """Draws the length of each queue over virtual time, as steps.

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
    ax = new_axes("A chart of a trace", 7.0, 3.2) if ax is None else ax
    lanes = trace.counters.lanes_of("queue")
    end_s = trace.end_s()
    for lane in lanes:
        time_s, length = trace.counters.series(lane, "queue")
        last_s = max(end_s, float(time_s[-1]))
        ax.plot(np.append(time_s, last_s), np.append(length, length[-1]), drawstyle="steps-post", label=lane, linewidth=1.2)
    if lanes:
        show_names_as_they_are(ax.legend(frameon=False, fontsize=8.5))
    ax.set_ylim(bottom=0)
    _frame(ax, "virtual time (s)", "closures in the queue", grid="y")
    return ax.figure


def _frame(ax: Axes, x_label: str, y_label: str, grid: Literal["x", "y"]) -> None:
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=GRID_COLOR, linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
