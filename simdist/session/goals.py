"""Goals: until when a session advances."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from simdist.session.run import Goal, ProgramRun
from simdist.simulation.loop import LAST_S

__all__ = ["ToTheEnd", "UntilSecond", "UntilEvents", "UntilSteps"]


@dataclass(frozen=True)
class ToTheEnd(Goal):
    """Until the program ends."""

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        return sys.maxsize, LAST_S


@dataclass(frozen=True)
class UntilSecond(Goal):
    """Until all that is due at a virtual second has happened."""

    until_s: float

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        if run.clock.queue and run.next_s() <= self.until_s:
            return sys.maxsize, self.until_s
        run.clock.stand_at(min(max(self.until_s, run.clock.now), max(run.next_s(), run.clock.now)))
        return None


@dataclass(frozen=True)
class UntilEvents(Goal):
    """Until so many events have happened since the beginning."""

    events: int

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        left = self.events - run.clock.events
        return (left, LAST_S) if left > 0 else None


@dataclass(frozen=True)
class UntilSteps(Goal):
    """Until the workers have ended so many steps since the beginning, all together."""

    steps: int

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        return (1, LAST_S) if run.steps < self.steps else None
