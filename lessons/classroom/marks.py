"""Pictures of lesson 07: how often each closure counts on the pages of two servers, and what policies make of deaths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from classroom.pictures import GRID_COLOR, LINE_COLORS, TEXT_COLOR, new_panels, picture_of

if TYPE_CHECKING:
    from IPython.display import Image
    from matplotlib.axes import Axes

__all__ = ["pages_picture", "policies_picture", "window_picture"]

PAGES = ("left, ps:0", "right, ps:1")
ALARM_COLOR, WARNING_COLOR = LINE_COLORS[3], LINE_COLORS[1]
FINE_COLOR = LINE_COLORS[2]
SHIFT = 0.03  # of the second line, so that one does not hide the other
WIDE_S = 0.3  # of virtual time; in a wider panel moments of one message lie too close for their names
PALE = 0.25  # how much of a colour lies behind a text


def pages_picture(title: str, pages: np.ndarray) -> Image:
    """A row of squares for each page, a square for each closure, with the number of its marks.

    Args:
        title: of the picture.
        pages: the numbers of marks, with a row for each page and a column for each closure.

    Example:
        >>> pages_picture("marks", np.ones((2, 12), int)).data[:4]
        b'\\x89PNG'
    """
    figure, (panel,) = new_panels(title)
    figure.set_size_inches(9.0, 1.7)
    for (row, closure), marks in np.ndenumerate(pages):
        color = {0: ALARM_COLOR, 1: GRID_COLOR}.get(int(marks), WARNING_COLOR)
        draw_square(panel, closure, row, color, 1.0 if marks == 1 else PALE, 0.9)
        weight = "normal" if marks == 1 else "bold"
        panel.text(closure, row, str(marks), ha="center", va="center", fontsize=9, color=TEXT_COLOR, weight=weight)
    panel.set(xlim=(-0.6, pages.shape[1] - 0.4), ylim=(1.55, -0.55), xlabel="closure")
    panel.set_yticks(range(len(PAGES)), PAGES)
    panel.set_xticks(range(0, pages.shape[1], 1 if pages.shape[1] <= 12 else 3))
    strip(panel)
    return picture_of(figure)


def window_picture(moments: np.ndarray, at_least_once: np.ndarray, exactly_once: np.ndarray) -> Image:
    """The marks of a closure by the moment at which its worker dies, under two policies.

    Args:
        moments: virtual seconds.
        at_least_once, exactly_once: marks, with a row for each moment and a column for each page.
    """
    figure, panels = new_panels("At least once (default)", "exactly_once=True")
    for panel, marks in zip(panels, (at_least_once, exactly_once), strict=True):
        panel.step(moments, marks[:, 0], where="mid", label="left page")
        panel.step(moments, marks[:, 1] - SHIFT, where="mid", label="right page")
        panel.set(xlabel="worker:1 dies at (virtual seconds)", ylim=(0.5, 2.5), yticks=(1, 2))
        step = 0.0 if np.ptp(moments) < WIDE_S else 0.13
        for number, (at_s, name) in enumerate(((1.04, "on ps:0"), (1.08, "on ps:1"), (1.12, "chief"))):
            panel.axvline(at_s, ymax=0.9, color="0.5", linestyle=":", linewidth=1)
            panel.text(at_s, 2.36 - number * step, name, ha="left" if step else "center", fontsize=8, color=TEXT_COLOR)
    panels[0].set_ylabel("marks of closure 1")
    panels[1].legend(framealpha=1.0, edgecolor="none", loc="center")  # moments lie behind it
    return picture_of(figure)


def policies_picture(results: Mapping[str, Mapping[str, tuple[Any, ...]]], undisturbed: Mapping[str, tuple[Any, ...]]) -> Image:
    """A table: a row for each death, a column for each policy, and in each field what is lost, what counts twice, and the cost.

    Args:
        results: outcomes of runs, by the name of the death and that of the policy.
        undisturbed: outcomes without a fault, by the name of the policy.
    """
    policies = list(undisturbed)
    figure, (panel,) = new_panels("Who dies, what is lost, and the seconds that it costs")
    figure.set_size_inches(9.0, 0.52 * len(results) + 1.0)
    for row, by_policy in enumerate(results.values()):
        for column, policy in enumerate(policies):
            words, color = in_words(by_policy[policy], undisturbed[policy][-1])
            draw_square(panel, column, row, color, PALE, 0.94)
            panel.text(column, row, words, ha="center", va="center", fontsize=8.5, color=TEXT_COLOR, linespacing=1.25)
    panel.set(xlim=(-0.5, len(policies) - 0.5), ylim=(len(results) - 0.5, -0.5))
    panel.set_yticks(range(len(results)), results)
    panel.set_xticks(range(len(policies)), policies)
    panel.xaxis.tick_top()
    panel.set_title("")
    strip(panel)
    return picture_of(figure)


def in_words(run: tuple[Any, ...], undisturbed_s: float) -> tuple[str, str]:
    """What a field of the table says, and its colour."""
    if len(run) == 2:
        return f"error\nat {run[1]:.1f} s", ALARM_COLOR
    lost, twice, end_s = run
    cost = f"+{end_s - undisturbed_s:.2f} s"
    if lost:
        return f"{lost} lost\n{cost}", ALARM_COLOR
    return (f"{twice} twice\n{cost}", WARNING_COLOR) if twice else (f"whole\n{cost}", FINE_COLOR)


def draw_square(panel: Axes, column: float, row: float, color: str, alpha: float, side: float) -> None:
    """Draw a filled field."""
    panel.fill(
        [column + side * dx for dx in (-0.5, 0.5, 0.5, -0.5)], [row + side * dy for dy in (-0.5, -0.5, 0.5, 0.5)], color, alpha=alpha
    )


def strip(panel: Axes) -> None:
    """Take away what a table does not need."""
    panel.grid(False)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)
