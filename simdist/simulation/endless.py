"""Errors for waits that cannot end, each with its reason and a remedy.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.arguments import END_S
from simdist.errors import DeadlineExceededError, InvalidArgumentError
from simdist.simulation.fiber import Waiter, words

__all__ = ["beyond_the_end", "livelock", "no_time_to_compute", "no_time_to_wait", "stuck", "waits_of"]

MOST_NAMED = 10


def no_time_to_wait(seconds: float) -> InvalidArgumentError:
    """The error for a delay that is negative, not a number, or infinite."""
    return InvalidArgumentError(f"{seconds!r} is no time to wait: give virtual seconds from 0 to less than {END_S:g}.")


def no_time_to_compute(lane: str, seconds: float) -> InvalidArgumentError:
    """The error for a duration that is negative, not a number, or infinite."""
    return InvalidArgumentError(
        f"{lane} was to compute for {seconds!r} s; expected 0 to less than {END_S:g}. Look at the figures and the jitter of its device, "
        "at seconds= of the step, and at the factors of faults.slow."
    )


def beyond_the_end(what: str, now_s: float, due_s: float) -> DeadlineExceededError:
    """The error for an event that is due after the end of the clock."""
    return DeadlineExceededError(
        f"Waiting for {what or 'an event'} at {now_s:.6f} s, the next thing to happen is due at {due_s:g} s, and this clock ends at "
        f"{END_S:g} s. Look for a bandwidth, a device or a factor that makes something take for ever."
    )


def livelock(what: str, now_s: float, events: int) -> DeadlineExceededError:
    """The error for events that happen while time does not move on."""
    return DeadlineExceededError(
        f"{events} events happened at {now_s:.9f} s without virtual time moving on, while waiting "
        f"for {what or 'an event'}. Two parts of the program wake each other for ever: give one of them a delay."
    )


def waits_of(waiters: Sequence[Waiter]) -> list[str]:
    """Who of these waits for what, in words; of many the first, and how many more there are."""
    waiting = [waiter for waiter in waiters if waiter.waiting is not None]
    told = [
        f"{waiter.lane} {'waits' if waiter.held is None else 'is paused, and waits'} for {words(waiter.waits_for) or 'an event'}"
        for waiter in waiting[:MOST_NAMED]
    ]
    return [*told, *([f"and {len(waiting) - MOST_NAMED} more wait for something"] if len(waiting) > MOST_NAMED else [])]


def stuck(what: str, now_s: float, absences: Sequence[str], waiters: Sequence[Waiter]) -> DeadlineExceededError:
    """The error for a wait when no event is pending: the tasks that are not there, and who else waits."""
    absent = f"{'; '.join(absences)}. " if absences else ""
    others = "; ".join(waits_of(waiters)) or "no task is waiting for anything"
    return DeadlineExceededError(
        f"Waiting for {what or 'an event'} at {now_s:.6f} s, but nothing that is still to happen can end this wait. "
        f"{absent}Elsewhere: {others}. Start a worker, schedule the missing work, or give the failed task a restart_after=, and a pause or "
        "partition an until=."
    )
