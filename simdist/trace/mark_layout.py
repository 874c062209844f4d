"""Which instants are drawn where. Instants that would touch share one mark, and the most serious of them is shown.

A note (level 0) is drawn as a small tick and never hides a mark. The interactive timeline (widgets/src/marks.ts) groups in
the same manner; tests/widgets/picture_cases.json holds examples that both sides are tested with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["NOTE_LEVEL", "Mark", "lay_out_marks"]

NOTE_LEVEL = 0
NOTE_GAP_PX, MARK_GAP_PX = 2.0, 12.0


@dataclass
class Mark:
    """One mark of a lane: where it is, the instant that it shows, and all that it stands for, by index."""

    x_px: float
    shown: int
    indices: list[int]


def lay_out_marks(x_px: Sequence[float], levels: Sequence[int]) -> list[Mark]:
    """The marks of one lane in drawing order: first the notes, then the rest, each from left to right.

    Args:
        x_px: where each instant is, in CSS pixels, ascending.
        levels: the level of each.

    Example:
        >>> [(mark.shown, mark.indices) for mark in lay_out_marks([0.0, 4.0, 90.0], [1, 3, 2])]
        [(1, [0, 1]), (2, [2])]
    """
    notes: list[Mark] = []
    marks: list[Mark] = []
    for index, (x, level) in enumerate(zip(x_px, levels, strict=True)):
        group, gap_px = (notes, NOTE_GAP_PX) if level == NOTE_LEVEL else (marks, MARK_GAP_PX)
        if not group or x - group[-1].x_px >= gap_px:
            group.append(Mark(x, index, [index]))
            continue
        group[-1].indices.append(index)
        if level > levels[group[-1].shown]:
            group[-1].shown = index
    return notes + marks
