"""Slices of simulated work between two looks at the messages of the front end."""

from __future__ import annotations

import math
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
        super().__init__(until_s, math.inf)
        self._real_s, self._events, self._read_at = real_s, 1, time.perf_counter()

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        found = super().budget(run)
        now = time.perf_counter()
        if self.ends == math.inf:
            self.ends = now + self._real_s  # from the first events on, so that there is always some progress
        elif now - self._read_at < READING_S:
            self._events = min(2 * self._events, MOST_EVENTS)
        else:
            self._events = max(self._events // 2, 1)
        self._read_at = now
        return None if found is None else (min(self._events, found[0]), found[1])
