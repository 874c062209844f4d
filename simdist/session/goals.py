"""Goals: until when a session advances."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from simdist.arguments import END_S, number, whole_number
from simdist.errors import InvalidArgumentError
from simdist.session.run import Goal, ProgramRun
from simdist.simulation.loop import LAST_S

__all__ = ["Frame", "Moment", "ToTheEnd", "UntilClosures", "UntilEvents", "UntilSecond", "UntilSteps", "goal_of"]

EVENTS_BETWEEN_READINGS = 200  # between two readings of the clock on the wall: a millisecond


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
        if run.clock.queue and run.agenda.next_s() <= self.until_s:
            return sys.maxsize, self.until_s
        run.agenda.stand_at(self.until_s)
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


@dataclass(frozen=True)
class UntilClosures(Goal):
    """Until so many closures have been completed since the beginning."""

    closures: int

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        return (1, LAST_S) if run.closures < self.closures else None


class Frame(Goal):
    """Until a virtual second, but no longer than some seconds of the clock on the wall, from now on.

    Args:
        until_s: the virtual second; more than there is time for: the end.
        real_s: seconds.

    Raises:
        InvalidArgumentError: the second is none.
    """

    def __init__(self, until_s: float, real_s: float) -> None:
        self.until_s = number(min(until_s, LAST_S), "until_s")
        self.ends = time.perf_counter() + real_s

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        if run.clock.queue and run.agenda.next_s() <= self.until_s:
            return (EVENTS_BETWEEN_READINGS, self.until_s) if time.perf_counter() < self.ends else None
        run.agenda.stand_at(self.until_s)
        return None


@dataclass(frozen=True)
class Moment(Goal):
    """A moment of a run, so exactly that another run of the same commands comes to it.

    Args:
        now_s: the virtual second.
        events: how many events have happened.
        is_over: whether the program has ended.
    """

    now_s: float
    events: int
    is_over: bool = False

    def __post_init__(self) -> None:
        # Kept as Python's own: the clock stands at this second, and with 32 bits all that comes would be rounded.
        object.__setattr__(self, "now_s", number(self.now_s, "now_s", below=END_S))
        object.__setattr__(self, "events", whole_number(self.events, "events", 0))

    @classmethod
    def of(cls, run: ProgramRun) -> Moment:
        """Where a run stands."""
        return cls(run.now, run.clock.events, run.state in ("finished", "failed"))

    def budget(self, run: ProgramRun) -> tuple[int, float] | None:
        left = sys.maxsize if self.is_over else self.events - run.clock.events
        if left > 0:
            return left, LAST_S
        run.agenda.stand_at(self.now_s)
        return None


def goal_of(run: ProgramRun, **given: float | None) -> Goal:
    """The goal of the arguments of `Session.advance`.

    Args:
        run: that will advance.
        given: until, by, events, steps, closures; None where nothing was given.

    Raises:
        InvalidArgumentError: several, a second that is over, or a number that makes no sense.
        TypeError: no number.
    """
    present = {name: value for name, value in given.items() if value is not None}
    if len(present) > 1:
        raise InvalidArgumentError(f"advance was given {' and '.join(present)}; give one of them.")
    for name, value in present.items():
        if name == "by":
            return UntilSecond(min(run.clock.now + number(value, name, below=END_S), LAST_S))
        if name == "events":
            return UntilEvents(run.clock.events + whole_number(value, name, 0))
        if name == "steps":
            return UntilSteps(run.steps + whole_number(value, name, 0))
        if name == "closures":
            return UntilClosures(run.closures + whole_number(value, name, 0))
        until_s = number(value, name, below=END_S)
        if until_s < run.clock.now:
            raise InvalidArgumentError(f"until={value!r} s is over: it is {run.clock.now:.6f} s. Go back with session.rewind({value!r}).")
        return UntilSecond(until_s)
    return ToTheEnd()
