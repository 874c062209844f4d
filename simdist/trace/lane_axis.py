"""The axis of a picture that has a row for each lane or task: how high a row is, and which of them are named.

Many rows share a height that still fits a screen; of their names so many are shown as can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simdist.trace.lane_labels import lane_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = ["name_rows", "row_inch"]

MOST_ROWS_INCH = 12.0
NAME_PT = 8  # a name needs so much height


def row_inch(rows: int) -> float:
    """The height of a row: fewer rows get more room.

    Example:
        >>> row_inch(3), row_inch(1200)
        (0.42, 0.01)
    """
    return min(0.42, MOST_ROWS_INCH / max(rows, 1))


def name_rows(ax: Axes, names: Sequence[str], inch: float) -> None:
    """Give each row its name, the first at the top, or every few rows where they are low.

    Args:
        ax: the axes, whose y counts rows.
        names: of all rows.
        inch: the height of a row.
    """
    ax.set_ylim(len(names) - 0.4 if names else 0.6, -0.6)
    row_pt = inch * 72
    every = max(1, int(np.ceil(NAME_PT / row_pt)))
    labels = [lane_label(name) for name in names[::every]]
    ax.set_yticks(range(0, len(names), every), [label.text for label in labels])
    for tick, label in zip(ax.get_yticklabels(), labels, strict=True):
        tick.set_parse_math(False)  # a dollar sign in a name begins no formula
        tick.set(fontsize=min(8.5 if label.is_part else 10.0, max(6.5, row_pt * 0.85)), color="#57606a" if label.is_part else "#1b1f24")
    ax.tick_params(axis="y", length=0)
