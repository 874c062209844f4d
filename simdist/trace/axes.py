"""The axes that a picture is drawn on where its caller gives none.

matplotlib is loaded here, when the first picture is drawn: the package works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdist.extras import needs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

__all__ = ["new_axes", "show_names_as_they_are"]


def new_axes(part: str, width_inch: float, height_inch: float) -> Axes:
    """The axes of a new figure of this size.

    Args:
        part: what is to be drawn, as the beginning of a sentence.
        width_inch: of the figure.
        height_inch: of the figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    with needs(part, "lab"):
        from matplotlib.figure import Figure  # only who draws needs it

    return Figure(figsize=(width_inch, height_inch), layout="constrained").add_subplot()


def show_names_as_they_are(legend: Legend) -> None:
    """Let no dollar sign in a legend begin a formula: its labels are names."""
    for text in legend.get_texts():
        text.set_parse_math(False)
