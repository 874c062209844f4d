"""Ctrl-C around a program that is run from time to time: it reaches the program's own code, or its caller's, and nothing between them.

While the state of one takes the place of the other's, Ctrl-C is put off: half of each would be left for good. A program that stands
still inside of a block that notes Ctrl-C takes the handler of that block with it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import greenlet

__all__ = ["ProgramInterrupts"]


class ProgramInterrupts:
    """The Ctrl-C of one program and of its caller."""

    def __init__(self) -> None:
        self._callers: Any = None  # handler of the caller; None: it has none that can be put off
        self._programs: Any = None  # handler of the block in which the program stands still; None: it is in none
        self._caller: greenlet.greenlet | None = None
        self._put_off: list[int] = []

    @contextmanager
    def between_states(self) -> Iterator[list[int]]:
        """A block that goes from the caller to the program and back. Ctrl-C in the caller's code is raised behind it, and in the list."""
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not (callable(handler) or handler is signal.SIG_IGN):
            self._callers = None
            yield []
            return
        self._callers, self._caller, self._put_off = handler, greenlet.getcurrent(), []
        signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield self._put_off
        finally:
            signal.signal(signal.SIGINT, handler)
            if self._put_off:
                signal.raise_signal(signal.SIGINT)

    @contextmanager
    def of_the_program(self) -> Iterator[None]:
        """The part of that block in which the program runs."""
        if self._callers is None:
            yield
            return
        if self._programs is not None:
            signal.signal(signal.SIGINT, self._programs)
        try:
            yield
        finally:
            left = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, self._interrupted)
            self._programs = None if left == self._interrupted else left

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if greenlet.getcurrent() is self._caller and not self._put_off:
            self._put_off.append(number)
        elif callable(self._callers):
            self._callers(number, frame)
