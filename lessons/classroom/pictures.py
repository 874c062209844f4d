"""Figures as pictures that have the same bytes on every run."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from IPython.display import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["picture_of"]


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
