"""Ctrl-C: noted between events while virtual time runs, and raised in the driver only; put off while numbers are computed.

Python delivers the signal to whatever code runs at that moment, which may be any task of the cluster.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["delayed_interrupts", "noted_interrupts", "raise_noted"]


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


@contextmanager
def delayed_interrupts() -> Iterator[list[BaseException]]:
    """Put Ctrl-C off until the end of the block, which may look into the list that it gets and end early; a second one raises at once."""
    noted: list[BaseException] = []
    try:
        with noted_interrupts(noted):
            yield noted
    except KeyboardInterrupt:
        noted.clear()
        raise
    finally:
        if noted:
            signal.raise_signal(signal.SIGINT)


def raise_noted(noted: list[BaseException]) -> None:
    """Raise Ctrl-C that was noted after the last look: whatever looks into the list next may be another cell.

    Example:
        >>> raise_noted([ValueError()])
        >>> raise_noted([KeyboardInterrupt()])
        Traceback (most recent call last):
        KeyboardInterrupt
    """
    if noted and isinstance(noted[-1], KeyboardInterrupt):
        raise noted.pop()
