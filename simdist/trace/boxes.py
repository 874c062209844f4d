"""Spans as boxes for a static picture, no more of them than a picture can show.

Where a log has more short spans than `PARTS`, time is cut into that many cells; each cell of a lane goes to the
category that covers most of it, and neighbouring cells of one category become one box. So the cost of drawing is
bounded by the picture, and a busy lane shows what it was busy with rather than what happened to be drawn last.
Longer spans keep their exact ends.

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simdist.trace.event_log import EventLog
from simdist.trace.styles import span_style

__all__ = ["PARTS", "Boxes", "boxes_by_category"]

PARTS = 2000  # cells of the run
UNKNOWN_LANE = -1


@dataclass(frozen=True)
class Boxes:
    """Boxes of one category: row of the picture (int), start and end in virtual seconds (float64), each of length n."""

    row: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray

    def only(self, chosen: np.ndarray) -> Boxes:
        """Those that a boolean mask of length n chooses."""
        return Boxes(self.row[chosen], self.start_s[chosen], self.end_s[chosen])

    def joined(self, other: Boxes) -> Boxes:
        """These and others."""
        pairs = zip((self.row, self.start_s, self.end_s), (other.row, other.start_s, other.end_s), strict=True)
        return Boxes(*(np.concatenate(pair) for pair in pairs))


def boxes_by_category(trace: EventLog, lanes: Sequence[str]) -> dict[str, Boxes]:
    """The boxes of every category that the log holds.

    Args:
        trace: the log.
        lanes: the lanes of the picture; the index of a lane is its row.

    Returns:
        Boxes by category, in the order of the alphabet.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> boxes_by_category(trace, ["worker:0"])["compute"].end_s.tolist()
        [0.5]
    """
    columns = trace.spans.columns()
    row = _rows(trace, lanes)[columns["lane"]]
    spans = Boxes(row, columns["start_s"], columns["end_s"])
    codes = np.unique(columns["category"])
    exact = {trace.names.texts[code]: spans.only(columns["category"] == code) for code in codes}
    cell_s = trace.end_s() / PARTS
    if cell_s <= 0 or np.count_nonzero(spans.end_s - spans.start_s < cell_s) <= PARTS:
        return dict(sorted(exact.items()))
    return dict(sorted(_merged(exact, cell_s, len(lanes)).items()))


def _rows(trace: EventLog, lanes: Sequence[str]) -> np.ndarray:
    """The row of every code in the log's table of names."""
    rows = np.full(max(len(trace.names.texts), 1), UNKNOWN_LANE)
    for row, lane in enumerate(lanes):
        if lane in trace.names.codes:
            rows[trace.names.codes[lane]] = row
    return rows


def _merged(exact: dict[str, Boxes], cell_s: float, rows: int) -> dict[str, Boxes]:
    """Long spans as they are, short ones as runs of cells; categories compete for a cell within their level."""
    merged: dict[str, Boxes] = {}
    for level in sorted({span_style(category).level for category in exact}):
        names = [category for category in exact if span_style(category).level == level]
        short = {name: exact[name].only(exact[name].end_s - exact[name].start_s < cell_s) for name in names}
        winner = _winners(list(short.values()), cell_s, rows)
        for index, name in enumerate(names):
            long = exact[name].only(exact[name].end_s - exact[name].start_s >= cell_s)
            merged[name] = long.joined(_runs(winner == index, cell_s))
    return merged


def _winners(short: list[Boxes], cell_s: float, rows: int) -> np.ndarray:
    """For each (row, cell) the index of the category that covers most of it, or -1; shape (rows, PARTS)."""
    best = np.zeros(rows * PARTS)
    winner = np.full(rows * PARTS, -1)
    for index, boxes in enumerate(short):
        cell = np.minimum((boxes.start_s / cell_s).astype(np.int64), PARTS - 1)
        # a span without duration counts too, but less than any other
        weight = np.maximum(boxes.end_s - boxes.start_s, cell_s * 1e-9)
        cover = np.bincount(boxes.row * PARTS + cell, weight, minlength=rows * PARTS)
        winner[cover > best] = index
        best = np.maximum(best, cover)
    return winner.reshape(rows, PARTS)


def _runs(cells: np.ndarray, cell_s: float) -> Boxes:
    """Neighbouring True cells of a (rows, PARTS) mask as one box each."""
    padded = np.pad(cells, ((0, 0), (1, 1))).astype(np.int8)
    change = np.diff(padded, axis=1)
    row, first = np.nonzero(change == 1)
    _, stop = np.nonzero(change == -1)
    return Boxes(row, first * cell_s, stop * cell_s)
