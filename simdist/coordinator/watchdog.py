"""The watchdog of a coordinator: a warning where closures are pending and none ends.

Taught in lesson 07.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from simdist.runtime.base import Engine

__all__ = ["Watchdog"]


class Watchdog:
    """Warns when closures are pending and none has ended for a while. It keeps no wait alive, and sleeps while nothing is pending.

    Args:
        engine: has the clock and the trace.
        seconds: after which it warns; None: never.
        pending: how many closures are.
        tells: what the coordinator knows of them, in words.

    Raises:
        FailedPreconditionError: it is to warn, and the engine has no time.
    """

    def __init__(self, engine: Engine, seconds: float | None, pending: Callable[[], int], tells: Callable[[], str]) -> None:
        self.engine = engine
        self.seconds = seconds
        self.pending = pending
        self.tells = tells
        self._since_s = 0.0
        self._is_awake = seconds is not None
        if seconds is not None:
            engine.after(seconds, self._wake, is_awaited=False)

    def scheduled(self) -> None:
        """A closure is pending now."""
        if self.seconds is not None and not self._is_awake:
            self._is_awake, self._since_s = True, self.engine.now
            self.engine.after(self.seconds, self._wake, is_awaited=False)

    def ended(self) -> None:
        """A closure has ended: it counts from now on."""
        self._since_s = self.engine.now

    def _wake(self) -> None:
        assert self.seconds is not None
        if not self.pending():
            self._is_awake = False
            return
        left_s = self._since_s + self.seconds - self.engine.now
        if left_s <= 0:
            self._warn()
            self._since_s, left_s = self.engine.now, self.seconds
        self.engine.after(left_s, self._wake, is_awaited=False)

    def _warn(self) -> None:
        waits = "; ".join(self.engine.waiting()) or "no task waits for anything"
        text = f"No closure has ended for {self.engine.now - self._since_s:g} s (it is {self.engine.now:.6f} s). {self.tells()}. {waits}."
        self.engine.trace.instant(self.engine.chief, "watchdog", text, self.engine.now)
        warnings.warn(text, RuntimeWarning, stacklevel=2)
