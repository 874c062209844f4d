"""The interrupt button, while a click's run goes on: a kernel takes no notice of SIGINT unless a cell runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupts"]


class Interrupts:
    """Takes SIGINT while it is armed, where it would be ignored. Where something else takes it, such as a cell's Ctrl-C, that stays.

    Args:
        pause: what an interrupt does between two pieces of work. In a piece of work it raises KeyboardInterrupt.
    """

    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause = pause
        self._is_working = False

    def arm(self) -> None:
        """Take interrupts from now on."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._interrupted)

    def disarm(self) -> None:
        """Leave interrupts alone again."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A piece of work that an interrupt ends."""
        self._is_working = True
        try:
            yield
        finally:
            self._is_working = False

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._is_working:
            raise KeyboardInterrupt
        self._pause()
