"""Ctrl-C: noted between events while virtual time runs, and raised in the driver only; put off while numbers are computed.

Python delivers the signal to whatever code runs at that moment, which may be any task of the cluster.
"""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports] - `signal` itself makes an enum of each handler, which takes five times as long
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

__all__ = ["delayed_interrupts", "noted_interrupts", "raise_noted", "whole_block"]

SIGINT = int(signal.SIGINT)


@contextmanager
def noted_interrupts(noted: list[BaseException]) -> Iterator[None]:
    """Put Ctrl-C into a list instead of raising it; a second one raises at once."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return

    def note(_signal: int, _frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(KeyboardInterrupt())

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def raise_noted(noted: list[BaseException]) -> None:
    """Raise Ctrl-C that was noted after the last look: whatever looks into the list next may be another cell.

    Example:
        >>> try:
        ...     raise_noted([KeyboardInterrupt()])
        ... except KeyboardInterrupt:
        ...     print("Ctrl-C")
        Ctrl-C
    """
    if noted and isinstance(noted[-1], KeyboardInterrupt):
        raise noted.pop()


class delayed_interrupts:
    """Put Ctrl-C off until the end of a block, which may look into the list that it gets and end early; a second one raises at once.

    What is changed inside belongs together: it happens wholly, or an error of its own ends it.

    Example:
        >>> with delayed_interrupts() as noted:
        ...     print(noted)
        []
    """

    __slots__ = ("_noted", "_previous")

    def __enter__(self) -> list[BaseException]:
        self._noted: list[BaseException] = []
        self._previous: Any = None
        if threading.get_ident() == threading.main_thread().ident:
            self._previous = _signal.getsignal(SIGINT)
            if self._previous is not None:
                _signal.signal(SIGINT, self._note)
        return self._noted

    def _note(self, _signal: int, _frame: Any) -> None:
        if self._noted:
            raise KeyboardInterrupt
        self._noted.append(KeyboardInterrupt())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._previous is not None:
            _signal.signal(SIGINT, self._previous)
            if self._noted and kind is not KeyboardInterrupt:
                signal.raise_signal(signal.SIGINT)


class whole_block(delayed_interrupts):
    """As `delayed_interrupts`, for a block in which code of users runs, which may wait in virtual time.

    Inside of a block that notes Ctrl-C already it changes nothing: tasks, which end such blocks in any order, would leave each other's
    handlers behind.

    Example:
        >>> with whole_block() as outer, whole_block() as inner:
        ...     print(outer, inner)
        [] []
    """

    __slots__ = ()

    def __enter__(self) -> list[BaseException]:
        current: Any = _signal.getsignal(SIGINT)
        if getattr(current, "__module__", None) != __name__:
            return super().__enter__()
        self._noted, self._previous = [], None
        return self._noted
