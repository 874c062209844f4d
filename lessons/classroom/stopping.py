"""The error that stops a notebook with a sentence in place of a traceback."""

from __future__ import annotations

from classroom.values import wrapped

__all__ = ["NotYetAnswered"]


class NotYetAnswered(Exception):
    """A prediction is missing: the cells below wait for it. JupyterLab shows the message only."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of the traceback."""
        return wrapped(str(self)).splitlines()
