"""Figures of lessons in one style, and as pictures that have the same bytes on every run."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from IPython.display import Image
from matplotlib.figure import Figure

from simdist.trace.styles import SPAN_STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LINE_COLORS", "LINE_STYLES", "MARKERS", "new_panels", "picture_of"]

HEIGHT_INCH = 3.6
WIDTH_INCH = 9.0
TEXT_COLOR = "#30363d"
GRID_COLOR = "#e3e6ea"
# hues that people with any of the common colour deficiencies tell apart (after Okabe and Ito)
LINE_COLORS = (*(SPAN_STYLES[name].color for name in ("compute", "input", "update", "collective", "read")), "#4d5663")
# colour is never the only sign: also who sees none, or has a black and white print, tells lines, dots and bars apart
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "X")


def new_panels(*titles: str) -> tuple[Figure, list[Axes]]:
    """A new figure with panels side by side, one for each title.

    Example:
        >>> figure, (left, right) = new_panels("loss", "time")
        >>> left.get_title(loc="left"), len(figure.axes)
        ('loss', 2)
    """
    figure = Figure(figsize=(WIDTH_INCH, HEIGHT_INCH), layout="constrained")
    panels = [figure.add_subplot(1, len(titles), number) for number in range(1, len(titles) + 1)]
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title, loc="left", fontsize=11, color=TEXT_COLOR)
        panel.set_prop_cycle(color=LINE_COLORS, linestyle=LINE_STYLES)
        panel.grid(color=GRID_COLOR, linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=TEXT_COLOR, labelsize=9)
    return figure, panels


def picture_of(figure: Figure) -> Image:
    """A figure as a PNG that names no version of matplotlib.

    Example:
        >>> from matplotlib.figure import Figure
        >>> picture_of(Figure(figsize=(1, 1))).data[:4]
        b'\\x89PNG'
    """
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100, metadata={"Software": None})
    return Image(data.getvalue())
