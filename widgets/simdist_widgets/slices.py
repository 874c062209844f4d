"""Slices of simulated work between two looks at the messages of the front end."""

from __future__ import annotations

import time

from simdist.session import Frame
from simdist.session.run import ProgramRun

__all__ = ["Slice"]

READING_S = 0.002  # between two readings of the clock on the wall
MOST_EVENTS = 200  # between them, however short events are


class Slice(Frame):
    """A frame that keeps its time where single events are long, too: a program's own steps may take milliseconds.

    Args:
        until_s: the virtual second.
        real_s: seconds of the clock on the wall, from now on.
    """

    def __init__(self, until_s: float, real_s: float) -> None:
        super().__init__(until_s, real_s)
        self._events, self._read_at = 1, time.perf_counter()

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        found = super().budget(run)
        if found is None:
            return None
        now = time.perf_counter()
        if now - self._read_at < READING_S:
            self._events = min(2 * self._events, MOST_EVENTS)
        else:
            self._events = max(self._events // 2, 1)
        self._read_at = now
        return min(self._events, found[0]), found[1]
