"""Pictures of lesson 08: which reader has which row in which step, and how often each row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from classroom.marks import ALARM_COLOR, PALE, WARNING_COLOR, draw_square, strip
from classroom.pictures import GRID_COLOR, LINE_COLORS, TEXT_COLOR, picture_of
from classroom.reading import Steps, times_read

if TYPE_CHECKING:
    from IPython.display import Image
    from matplotlib.axes import Axes

__all__ = ["reading_picture", "visits_picture"]

WIDTH_INCH = 9.0
LINE_INCH = 0.3  # of one line of squares


def reading_picture(panels: Mapping[str, Steps], reader: str = "worker:") -> Image:
    """A panel for each run: a line for each reader, a column for each row, and in the square the step.

    Args:
        panels: the rows of each reader, step by step, by the title of the panel.
        reader: what stands before the number of a line: "worker:" or "replica ".

    Example:
        >>> reading_picture({"DATA": [[[0, 1], [2, 3]]]}).data[:4]
        b'\\x89PNG'
    """
    lines = [len(steps[0]) + 1 for steps in panels.values()]
    figure = Figure(figsize=(WIDTH_INCH, LINE_INCH * sum(lines) + 0.55 * len(panels) + 0.35), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=lines)[:, 0]
    for panel, (title, steps) in zip(axes, panels.items(), strict=True):
        for number, readers in enumerate(steps):
            for line, rows in enumerate(readers):
                for row in rows:
                    draw_square(panel, row, line, LINE_COLORS[number % len(LINE_COLORS)], PALE, 0.92)
                    write(panel, row, line, str(number))
        counts = times_read(steps)
        draw_counts(panel, len(steps[0]), counts)
        names = [f"{reader}{index}" for index in range(len(steps[0]))]
        label(panel, title, [*names, "times read"], len(counts))
    axes[-1].set_xlabel("row of the dataset; the number in a square is the step that reads it", fontsize=9, color=TEXT_COLOR)
    return picture_of(figure)


def visits_picture(counts: Mapping[str, Sequence[int]]) -> Image:
    """A line for each run, a column for each row, and in the square how often it is read.

    Args:
        counts: how often each row is read, by the name of the run.

    Example:
        >>> visits_picture({"with shard": [1, 0, 2]}).data[:4]
        b'\\x89PNG'
    """
    figure = Figure(figsize=(WIDTH_INCH, LINE_INCH * len(counts) + 0.75), layout="constrained")
    panel = figure.add_subplot()
    for line, of_rows in enumerate(counts.values()):
        draw_counts(panel, line, of_rows)
    label(panel, "How often each row is read in an epoch", list(counts), len(next(iter(counts.values()))))
    return picture_of(figure)


def draw_counts(panel: Axes, line: int, counts: Sequence[int]) -> None:
    """Draw a line of numbers; all but 1 stand out."""
    for row, count in enumerate(counts):
        color = {0: ALARM_COLOR, 1: GRID_COLOR}.get(count, WARNING_COLOR)
        draw_square(panel, row, line, color, 0.6 if count == 1 else PALE, 0.92)
        write(panel, row, line, str(count), "normal" if count == 1 else "bold")


def write(panel: Axes, row: int, line: int, text: str, weight: str = "normal") -> None:
    """Write into a square."""
    panel.text(row, line, text, ha="center", va="center_baseline", fontsize=8.5, color=TEXT_COLOR, weight=weight)


def label(panel: Axes, title: str, lines: Sequence[str], columns: int) -> None:
    """Name the lines and number the columns."""
    panel.set_title(title, loc="left", fontsize=11, color=TEXT_COLOR)
    panel.set(xlim=(-0.6, columns - 0.4), ylim=(len(lines) - 0.45, -0.55))
    panel.set_yticks(range(len(lines)), lines)
    panel.set_xticks(range(columns))
    strip(panel)
    panel.tick_params(colors=TEXT_COLOR, labelsize=8.5)
