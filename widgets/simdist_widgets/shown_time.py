"""The times that a widget shows, checked: a cursor, and what is in view."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simdist.errors import InvalidArgumentError

__all__ = ["checked_cursor_s", "checked_view_s"]


def checked_cursor_s(widget: str, cursor_s: float | None) -> float | None:
    """A cursor's virtual second, or None.

    Raises:
        InvalidArgumentError: it is infinite or NaN.
    """
    if cursor_s is not None and not math.isfinite(cursor_s):
        raise InvalidArgumentError(f"{widget}: cursor_s must be a finite virtual second, or None for no cursor; given {cursor_s}.")
    return cursor_s


def checked_view_s(widget: str, view_s: Sequence[float]) -> list[float]:
    """What is in view: [start, end], or [] for the whole run.

    Raises:
        InvalidArgumentError: something else, or an end that is not after the start.

    Example:
        >>> checked_view_s("Timeline", [0.0, 0.5]), checked_view_s("Timeline", [])
        ([0.0, 0.5], [])
    """
    ends_s = list(view_s)
    if ends_s and not (len(ends_s) == 2 and all(map(math.isfinite, ends_s)) and ends_s[0] < ends_s[1]):
        raise InvalidArgumentError(
            f"{widget}: view_s must be [start, end], two finite virtual seconds with the end after the start, or [] for the whole run; "
            f"given {ends_s}."
        )
    return ends_s
