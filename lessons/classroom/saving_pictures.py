"""Pictures of lessons 09 and 13: curves that part, steps against time, standstill, and the price of an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from classroom.marks import ALARM_COLOR, PALE
from classroom.pictures import LINE_COLORS, TEXT_COLOR, new_panels, picture_of

if TYPE_CHECKING:
    from IPython.display import Image
    from matplotlib.axes import Axes

__all__ = ["parting_picture", "progress_picture", "standard_error", "standstill_picture", "stretch_picture"]

BAR_HEIGHT = 0.62
LONG = 0.65  # part of the longest bar
QUIET_COLOR = "0.55"  # of what others are compared with


def parting_picture(whole: Sequence[float], resumed: Mapping[str, Sequence[float]]) -> Image:
    """The losses of a training, and of programs that go on with a part of its state: as they are, and their distance from it.

    Args:
        whole: losses after each step.
        resumed: losses of the last steps, by what is missing.

    Example:
        >>> parting_picture([3.0, 2.0, 1.0], {"nothing": [1.0], "the optimizer": [1.5]}).data[:4]
        b'\\x89PNG'
    """
    figure, (left, right) = new_panels("Loss after each step", "Distance from the undisturbed training")
    left.plot(range(1, len(whole) + 1), whole, "-", color=QUIET_COLOR, linewidth=4, alpha=0.5, label="undisturbed")
    for missing, losses in resumed.items():
        first = len(whole) - len(losses)
        steps = np.arange(first + 1, len(whole) + 1)
        apart = np.abs(np.subtract(losses, whole[first:]))
        left.plot(steps, losses, linewidth=1.6)
        name = f"without {missing}" if np.any(apart) else f"{missing} missing: always 0"
        right.plot(steps, np.where(apart > 0, apart, np.nan), linewidth=1.6, label=name)
    first = len(whole) - max(len(losses) for losses in resumed.values())
    left.axvline(first, color=TEXT_COLOR, linewidth=1, linestyle=":")
    left.annotate(
        "restored", (first, 0.97), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points", va="top", fontsize=9
    )
    low = np.asarray(whole)[max(first - 15, 0) :]
    left.set(xlabel="step", xlim=(max(first - 15, 1), len(whole)), ylim=(float(low.min()) - 0.03, float(low.max()) + 0.05))
    left.legend(frameon=False, fontsize=8, loc="upper right")
    right.set(xlabel="step", yscale="log")
    right.set_ylim(right.get_ylim()[0] / 8)
    legend = right.legend(frameon=False, fontsize=8, loc="lower left", ncols=2, columnspacing=0.8, handlelength=1.6, handletextpad=0.5)
    legend.set_in_layout(False)  # or the panel becomes narrower by what the legend is longer, and the legend is longer still
    return picture_of(figure)


def progress_picture(title: str, runs: Mapping[str, Sequence[tuple[float, float]]], marks: Mapping[str, float] | None = None) -> Image:
    """How far each training is, against virtual time; what has to be done again is a line that falls.

    Args:
        title: of the picture.
        runs: pairs of virtual second and steps that are done, by name.
        marks: virtual seconds that get a vertical line, by name.
    """
    figure, (panel,) = new_panels(title)
    for number, (name, points) in enumerate(runs.items()):
        seconds, steps = zip(*points, strict=True)
        quiet: dict[str, Any] = {"color": QUIET_COLOR, "linewidth": 4, "alpha": 0.5}
        style: dict[str, Any] = {"color": LINE_COLORS[(number - 1) % 6]} if number else quiet
        panel.plot(seconds, steps, drawstyle="steps-post", label=f"{name}: {seconds[-1]:.0f} s", **style)
    for name, second in (marks or {}).items():
        panel.axvline(second, color=ALARM_COLOR, linewidth=1, linestyle=":")
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (-4, 0), "textcoords": "offset points", "ha": "right"}
        panel.annotate(name, (second, 0.02), fontsize=9, **place)
    panel.set(xlabel="virtual seconds", ylabel="steps done", ylim=(0, None))
    panel.margins(x=0.01)
    panel.legend(frameon=False, fontsize=9, loc="upper left")
    return picture_of(figure)


def standstill_picture(rows: Mapping[str, tuple[float, float]]) -> Image:
    """For each way of saving: how long the training stands still, and when the checkpoint is durable.

    Args:
        rows: seconds of standstill and seconds until it is durable, by name.

    Example:
        >>> standstill_picture({"chief": (5.0, 5.0), "chief, async": (0.0, 5.0)}).data[:4]
        b'\\x89PNG'
    """
    figure, (panel,) = new_panels("What a checkpoint costs")
    figure.set_size_inches(9.0, 0.42 * len(rows) + 1.0)
    for row, (stands_s, durable_s) in enumerate(rows.values()):
        panel.barh(row, durable_s, BAR_HEIGHT, color=LINE_COLORS[0], alpha=PALE, label="writing, beside the training" if not row else None)
        panel.barh(row, stands_s, BAR_HEIGHT, color=ALARM_COLOR, label="the training stands still" if not row else None)
        panel.text(max(durable_s, stands_s) + 0.06, row, f"{stands_s:.2f} of {durable_s:.2f} s", va="center", fontsize=9, color=TEXT_COLOR)
    panel.set_yticks(range(len(rows)), rows)
    ends_s = [durable_s for _, durable_s in rows.values()]
    legend_rows = 1.3 if max(ends_s[-2:]) > LONG * max(ends_s) else 0.0  # long bars leave no room for the legend
    panel.set(ylim=(len(rows) - 0.5 + legend_rows, -0.5), xlabel="virtual seconds", xlim=(0, 1.22 * max(ends_s)))
    panel.grid(visible=False, axis="y")
    panel.legend(frameon=False, fontsize=9, loc="lower right")
    return picture_of(figure)


def stretch_picture(
    measured: Mapping[float, Sequence[float]], formula: Mapping[float, float], best_s: float, parts: Mapping[str, Mapping[float, float]]
) -> Image:
    """How many times as long as its work a job takes, by the interval between its checkpoints.

    Args:
        measured: the stretch of each run, by the interval.
        formula: the expected stretch, by the interval.
        best_s: the best interval by the formula.
        parts: of the expected stretch, by their names: what is added to 1.
    """
    figure, (left, right) = new_panels("Stretch of the job", "Where it comes from, by the formula")
    intervals = list(formula)
    left.plot(intervals, list(formula.values()), color=QUIET_COLOR, linewidth=4, alpha=0.5, label="formula")
    for number, (interval, runs) in enumerate(measured.items()):
        spread = np.linspace(0.965, 1.035, len(runs))
        left.plot(interval * spread, runs, ".", markersize=3, color=LINE_COLORS[0], alpha=0.35)
        label = "mean of the runs" if not number else None
        left.errorbar(interval, np.mean(runs), standard_error(runs), fmt="o", color=LINE_COLORS[0], capsize=3, label=label)
    for panel in (left, right):
        panel.axvline(best_s, ymax=0.75, color=ALARM_COLOR, linewidth=1, linestyle=":")  # the legend stands above it
        panel.set(xscale="log", xlabel="seconds of work between two checkpoints")
        panel.set_xticks(list(measured), [f"{interval:g}" for interval in measured])
        panel.minorticks_off()
    left.set_ylabel("time / work")
    right.set_ylabel("added to 1")
    draw_parts(right, parts)
    left.annotate(
        f"{best_s:.0f} s", (best_s, 0.02), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points", fontsize=9
    )
    left.legend(frameon=False, fontsize=9, loc="upper center")
    return picture_of(figure)


def draw_parts(panel: Axes, parts: Mapping[str, Mapping[float, float]]) -> None:
    """Stack what is added to 1."""
    names, intervals = list(parts), list(next(iter(parts.values())))
    panel.stackplot(intervals, *[list(part.values()) for part in parts.values()], labels=names, colors=LINE_COLORS[:3], alpha=0.6)
    panel.set(xlim=(min(intervals), max(intervals)))
    panel.legend(frameon=False, fontsize=9, loc="upper center")


def standard_error(runs: Sequence[float]) -> float:
    """How far the mean of some runs may be from that of all; of one run nobody knows: NaN.

    Example:
        >>> round(standard_error([1.0, 3.0]), 6)
        1.0
    """
    return float(np.std(runs, ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else float("nan")
