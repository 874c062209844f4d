"""`Watched`: a function of a student that notes whether it calls another one, under whatever name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

__all__ = ["Watched"]


class Watched:
    """A function that behaves as before, and notes whether another one ran inside it.

    Args:
        function: of a student.
        other: the function that it should do without.

    Attributes:
        has_called: whether `other` has run in one of its calls.

    Example:
        >>> def other(): return 3
        >>> alias = other
        >>> watched = Watched(lambda: alias() + 1, other)
        >>> watched(), watched.has_called
        (4, True)
    """

    def __init__(self, function: Callable[..., Any], other: FunctionType) -> None:
        self.has_called = False
        self._function = function
        self._code = other.__code__

    def __call__(self, *args: Any) -> Any:
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            return self._function(*args)
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is self._code:
            self.has_called = True
