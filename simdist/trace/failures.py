"""The stories of failures: from a crash to the restart, with what was run again because of it.

A failure is a ``crash`` instant. It is *detected* and *restarted* by the first ``detect`` and ``restart`` instant of
the same lane that was recorded after it and before the lane's next crash. The closures retried for it are the
``retry`` instants up to its restart (or its next crash, or the end of the run) that name the lane in a fact ``task``,
or name no task.

Invariant: a moment that never came is None.

Taught in lesson 01.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simdist.trace.records import Instant

__all__ = ["Failure", "failures"]

DEATHS = ("crash", "lose_host")


@dataclass(frozen=True)
class Failure:
    """What the log says about one crash; times in the instants are virtual seconds."""

    crash: Instant
    detect: Instant | None
    restart: Instant | None
    retries: tuple[Instant, ...]


def failures(instants: Sequence[Instant]) -> list[Failure]:
    """The failures of a run, in order of their crashes.

    Args:
        instants: all instants of the run, in the order in which they were recorded.

    Returns:
        One failure for each crash.

    Example:
        >>> crash = Instant("worker:0", "crash", "crash of worker:0", 1.0, {})
        >>> back = Instant("worker:0", "restart", "restart of worker:0", 3.0, {})
        >>> failures([crash, back])[0].restart.time_s
        3.0
    """
    crashes = [row for row, item in enumerate(instants) if item.category in DEATHS]
    return [_failure(instants[row], instants[row + 1 :]) for row in crashes]


def _failure(crash: Instant, later: Sequence[Instant]) -> Failure:
    crashes = (row for row, item in enumerate(later) if item.category in DEATHS and item.lane == crash.lane)
    later = later[: next(crashes, len(later))]
    own = [item for item in later if item.lane == crash.lane]
    restart = _first(own, "restart")
    until_s = math.inf if restart is None else restart.time_s
    retries = (item for item in later if item.category == "retry" and item.time_s <= until_s)
    mine = tuple(item for item in retries if str(item.facts.get("task", crash.lane)) == crash.lane)
    return Failure(crash, _first(own, "detect"), restart, mine)


def _first(instants: Sequence[Instant], category: str) -> Instant | None:
    return next((item for item in instants if item.category == category), None)
