"""What all widgets have in common: the three ways in which one shows itself.

Live: anywidget's view. Static: a PNG of the same data (`png`), for places that run no widgets. Text: one line without a
memory address, equal for equal data, because stored notebooks are compared by it.

A picture takes up to some seconds, so a display has none: it would keep the reader waiting for what is not shown. Where
outputs are stored for places that run no widgets, the environment variable SIMDIST_STATIC_PICTURES=1 puts it beside the view;
lessons/store_outputs.py sets it.
"""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any, ClassVar

import anywidget

from simdist.extras import needs
from simdist_widgets.host_page import export_page

PICTURES = "SIMDIST_STATIC_PICTURES"


class BaseWidget(anywidget.AnyWidget):
    """A widget with a deterministic text, a static picture and an export.

    A subclass sets `page_name` (how the exported page calls it) and `page_traits` (what the page needs of its
    state), and defines `picture` and `__repr__`.
    """

    page_name: ClassVar[str]
    page_traits: ClassVar[tuple[str, ...]]

    def picture(self) -> Any:
        """The same data as a matplotlib ``Figure``."""
        raise NotImplementedError

    def png(self) -> bytes:
        """The static picture as a PNG file's bytes."""
        with needs("The static picture of a widget", "lab"):
            from matplotlib.backends.backend_agg import FigureCanvasAgg

        target = io.BytesIO()
        FigureCanvasAgg(self.picture()).print_png(target, metadata={"Software": None})
        return target.getvalue()

    def page_state(self) -> dict[str, dict[str, Any]]:
        """The state that the exported page needs: ``values`` as JSON holds them, ``bytes`` in base64."""
        traits = {name: getattr(self, name) for name in self.page_traits}
        return {
            "values": {name: value for name, value in traits.items() if not isinstance(value, bytes)},
            "bytes": {name: base64.b64encode(v).decode("ascii") for name, v in traits.items() if isinstance(v, bytes)},
        }

    def export_html(self, path: str | Path, title: str | None = None) -> Path:
        """Writes a page with this widget that opens anywhere, without a server and without a network.

        Args:
            path: the file to write; folders that are missing are made, an old file is replaced.
            title: the page's heading (default: what the widget is).

        Returns:
            The path of the file.
        """
        return export_page(path, title or self.page_name.replace("_", " ").capitalize(), [("", self)])

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        data = {**data, "text/plain": repr(self)}
        if os.environ.get(PICTURES) == "1":
            data["image/png"] = base64.b64encode(self.png()).decode("ascii")
        return data, metadata
