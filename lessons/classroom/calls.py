"""Calls of functions of a student: `Watched` notes whether one calls another one, and `called_in_main` keeps it from ending a main."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

__all__ = ["Watched", "called_in_main"]


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


def called_in_main(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of a student in a main, which it must not end as if the main had done its work.

    Raises:
        RuntimeError: it has called `sys.exit` without an error status; with the traceback of that call.

    Example:
        >>> called_in_main(max, 3, 4)
        4
    """
    try:
        return function(*args)
    except SystemExit as error:
        if error.code:  # that is reported by itself; a preemption ends mains so, too
            raise
        text = "sys.exit() ends the main of this task, and nobody would see that its work is not done. Let the function return."
        raise RuntimeError(text).with_traceback(error.__traceback__) from None
