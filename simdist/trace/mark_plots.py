"""Faults, retries and recoveries on a static picture: shapes of glyphs.py, in groups of mark_layout.py, with their names.

Taught in lesson 01.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simdist.trace.event_log import EventLog
from simdist.trace.glyphs import RADIUS, commands_of
from simdist.trace.mark_layout import NOTE_LEVEL, Mark, lay_out_marks
from simdist.trace.records import Instant
from simdist.trace.styles import MARK_STYLES, mark_style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.path import Path

__all__ = ["draw_marks", "legend_handles"]

POINTS = 0.72  # of a CSS pixel, where 100 of them are an inch
CHARACTER_PX, NAME_GAP_PX = 7.0, 11.0  # of a mark's name: its letters, and its distance from the mark
LEAST_LANE_PX = 20.0  # for names
NOTE_DROP = 0.34  # of a lane, that notes lie below its middle


def draw_marks(ax: Axes, trace: EventLog, lanes: Sequence[str], width_px: float, lane_px: float) -> None:
    """Draws the instants of a log that are in view.

    Args:
        ax: the axes, with virtual seconds to the right and one row a lane.
        trace: the log.
        lanes: the lanes of the picture, top to bottom.
        width_px: the width of the picture, CSS pixels, which decides what shares a mark.
        lane_px: the height of a lane, CSS pixels.
    """
    start_s, end_s = ax.get_xlim()
    px_per_s = width_px / (end_s - start_s)
    reach_s = RADIUS / px_per_s
    of_lane: dict[str, list[Instant]] = {}
    for instant in sorted(trace.instants, key=lambda instant: instant.time_s):
        if start_s - reach_s <= instant.time_s <= end_s + reach_s:
            of_lane.setdefault(instant.lane, []).append(instant)
    scale = min(1.0, (lane_px - 2) / (2 * RADIUS))
    drawn: dict[str, list[tuple[float, float]]] = {}
    for row, lane in enumerate(lanes):
        instants = of_lane.get(lane, [])
        levels = [mark_style(instant.category).level for instant in instants]
        marks = lay_out_marks([instant.time_s * px_per_s for instant in instants], levels)
        for mark in marks:
            first, shown = instants[mark.indices[0]], instants[mark.shown]
            note = mark_style(shown.category).level == NOTE_LEVEL
            drawn.setdefault(shown.category, []).append((first.time_s, row + (NOTE_DROP if note else 0.0)))
        if lane_px >= LEAST_LANE_PX:
            _write_names(ax, row, instants, marks, px_per_s)
    for category, points in drawn.items():
        _scatter(ax, category, np.array(points), scale)


def legend_handles(trace: EventLog) -> dict[str, tuple[Line2D, ...]]:
    """Body and, where it has one, sign of each category of instants that a log holds, in the order of the legend."""
    from matplotlib.lines import Line2D  # only who draws needs matplotlib

    present = {instant.category for instant in trace.instants}
    look: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 1.1, "markerfacecolor": "none", "markeredgecolor": "white"}
    handles: dict[str, tuple[Line2D, ...]] = {}
    for category in [name for name in MARK_STYLES if name in present] + sorted(present - MARK_STYLES.keys()):
        style = mark_style(category)
        body, sign = _path(style.glyph.body), _path(style.glyph.sign)
        lines = [Line2D([], [], marker=body, markersize=_size(body), color=style.color, linestyle="none", markeredgewidth=0.0)]
        lines += [Line2D([], [], marker=sign, markersize=_size(sign), **look)] if style.glyph.sign else []
        handles[category] = tuple(lines)
    return handles


def _scatter(ax: Axes, category: str, points: np.ndarray, scale: float) -> None:
    style = mark_style(category)
    body, sign = _path(style.glyph.body), _path(style.glyph.sign)
    zorder = 4 + style.level
    ax.scatter(
        points[:, 0],
        points[:, 1],
        s=(_size(body) * scale) ** 2,
        marker=body,  # pyright: ignore[reportArgumentType]
        facecolor=style.color,
        edgecolors="white",
        linewidths=0.7 * scale,
        zorder=zorder,
        label=category,
    )
    if style.glyph.sign:
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=(_size(sign) * scale) ** 2,
            marker=sign,  # pyright: ignore[reportArgumentType]
            facecolors="none",
            edgecolors="white",
            linewidths=1.2 * scale,
            capstyle="round",
            zorder=zorder + 0.1,
        )


def _write_names(ax: Axes, row: int, instants: Sequence[Instant], marks: Sequence[Mark], px_per_s: float) -> None:
    """Writes the category beside each mark that has room for it before the next one and before the end of the picture."""
    serious = [mark for mark in marks if mark_style(instants[mark.shown].category).level > NOTE_LEVEL]
    end_px = ax.get_xlim()[1] * px_per_s + NAME_GAP_PX
    nexts = [mark.x_px for mark in serious[1:]] + [end_px]
    for mark, next_px in zip(serious, nexts, strict=False):
        more = f" +{len(mark.indices) - 1}" if len(mark.indices) > 1 else ""
        text = f"{instants[mark.shown].category}{more}"
        if mark.x_px + 2 * NAME_GAP_PX + len(text) * CHARACTER_PX > min(next_px, end_px):
            continue
        ax.annotate(
            text,
            (mark.x_px / px_per_s, row),
            xytext=(NAME_GAP_PX * POINTS, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            fontweight="bold",
            zorder=9,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            annotation_clip=True,
            parse_math=False,
        )


def _path(path_data: str) -> Path:
    """Path data as matplotlib draws it, with y pointing up."""
    from matplotlib.path import Path

    codes = {"M": Path.MOVETO, "L": Path.LINETO, "C": Path.CURVE4}
    vertices: list[tuple[float, float]] = []
    kinds: list[Any] = []
    for letter, points in commands_of(path_data):
        vertices += [(x, -y) for x, y in points] if letter != "Z" else [(0.0, 0.0)]
        kinds += [codes[letter]] * len(points) if letter != "Z" else [Path.CLOSEPOLY]
    return Path(vertices, kinds) if vertices else Path([(0.0, 0.0)])


def _size(path: Path) -> float:
    """The size of a marker in points, at which the path's units are CSS pixels: matplotlib scales its greatest number to one half."""
    return 2 * float(np.abs(np.asarray(path.vertices)).max()) * POINTS
