"""The event loop: it takes events from a clock's queue in order, and calls what they hold.

Invariants: virtual time never runs backwards; nothing happens between two events but what the first one did.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import simpy

from simdist.arguments import END_S
from simdist.randomness import generator
from simdist.simulation.endless import beyond_the_end, livelock, stuck
from simdist.simulation.fiber import Awaited, Fiber, Waiter, fire, words
from simdist.simulation.stack_room import with_stack_room

__all__ = ["FEW_EVENTS", "LAST_S", "LIVELOCK_EVENTS", "Pauses", "Timetable", "run_events", "run_many_events", "shuffled"]

LIVELOCK_EVENTS = 2_000_000  # at one moment: beyond this, two parts of a program wake each other for ever
LAST_S = math.nextafter(END_S, 0.0)  # the last second at which something can happen
FEW_EVENTS = 200  # a wait that takes more gets room on the stack


class Timetable(Protocol):
    """What the loop needs of the clock.

    Attributes:
        now: virtual seconds since the start.
        queue: what is to come, as a heap of (time, priority, sequence, event) or (time, priority, sequence, function, argument).
        events: how many events have happened.
        events_of_moment: how many of them in a row without virtual time moving on.
        daemons: how many of what is to come keep no run alive.
        absences: gives tasks that are not there, in words; with what waits (`fibers`, `steps`) for error messages.
    """

    env: simpy.Environment
    now: float
    queue: list[Any]
    events: int
    events_of_moment: int
    daemons: int
    absences: Callable[[], Sequence[str]]
    fibers: list[Fiber]
    steps: dict[Waiter, None]


class Pauses(Protocol):
    """Who lets a run stand still between events: a session."""

    def before_events(self) -> tuple[int, float]:
        """How many events may happen now, and until which virtual second; returns when it is their time."""
        ...

    def interrupted(self) -> None:
        """Ctrl-C came between two events: the run shall stand still."""
        ...


def run_events(
    clock: Timetable,
    gate: Awaited,
    what: str | Callable[[], str],
    stops: list[BaseException],
    most_events: int,
    until_s: float = LAST_S,
) -> None:
    """Let events happen until a gate is open, so many have happened, or the next one would come later than a virtual second.

    Args:
        clock: whose events.
        gate: that is waited for.
        what: is waited for, for error messages.
        stops: an error that stands here after an event is raised.
        most_events: how many may happen.
        until_s: those at this second still happen.

    Raises:
        DeadlineExceededError: no event is left, the next one comes after the end of time, or time does not move on.
    """
    env, queue, moment, same_moment = clock.env, clock.queue, clock.now, clock.events_of_moment
    number = 0
    try:
        for number in range(most_events):  # noqa: B007
            if gate.callbacks is None:
                return
            if len(queue) <= clock.daemons:
                raise stuck(words(what), clock.now, clock.absences(), [*clock.fibers, *clock.steps])
            entry = heappop(queue)
            now = entry[0]
            if now != moment:
                if not moment < now <= until_s:
                    heappush(queue, entry)
                    if moment < now < END_S:
                        return
                    raise beyond_the_end(words(what), clock.now, now)
                env._now = clock.now = moment = now
                same_moment = 0
            elif (same_moment := same_moment + 1) > LIVELOCK_EVENTS:
                heappush(queue, entry)
                raise livelock(words(what), clock.now, LIVELOCK_EVENTS)
            if len(entry) == 5:
                entry[3](entry[4])
            else:
                fire(entry[3])
            if stops:
                raise stops.pop(0)
        number = most_events
    finally:
        clock.events += number
        clock.events_of_moment = same_moment


run_many_events = with_stack_room(run_events)


def shuffled(seed: int) -> Iterator[tuple[float, int]]:
    """Numbers of events that put those of one moment into an order drawn from a seed."""
    draw = generator(seed, "ties").random
    return ((draw(), number) for number in itertools.count())
