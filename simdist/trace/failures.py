"""The stories of failures: from a crash to the restart, with what was run again because of it.

A failure is a ``crash`` instant; that of a task which is down already is part of the story of the failure before it. It is *detected*
and *restarted* by the first ``detect`` and ``restart`` instant of the same lane that was recorded after it and before the lane's next
failure. The closures retried for it are the ``retry`` instants of that lane up to its restart, or up to the detection where that came
later (or its next failure, or the end of the run); one of another lane may name the lane in a fact ``task``. The ``rollback`` instants of
the lane before its next failure say how many updates of its variables were undone.

Invariant: a moment that never came is None.

Taught in lesson 01.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    rollbacks: tuple[Instant, ...] = ()


def failures(instants: Sequence[Instant]) -> list[Failure]:
    """The failures of a run, in order of their crashes.

    Args:
        instants: all instants of the run, in the order in which they were recorded.

    Returns:
        One failure for each crash of a task that was up.

    Example:
        >>> crash = Instant("worker:0", "crash", "crash of worker:0", 1.0, {})
        >>> back = Instant("worker:0", "restart", "restart of worker:0", 3.0, {})
        >>> failures([crash, back])[0].restart.time_s
        3.0
    """
    found = _Instants(instants)
    return [found.failure(row) for row in found.deaths]


class _Instants:
    """The rows of instants by lane and category, so that no failure looks at those of others; `deaths` are those of tasks that were up."""

    def __init__(self, instants: Sequence[Instant]) -> None:
        self.instants = instants
        self.rows: dict[tuple[str, str], list[int]] = {}
        self.deaths: list[int] = []
        down: set[str] = set()
        for row, item in enumerate(instants):
            if item.category in DEATHS:
                if item.lane in down:
                    continue
                down.add(item.lane)
                self.deaths.append(row)
            elif item.category == "restart":
                down.discard(item.lane)
            self.rows.setdefault(_key(item), []).append(row)
        self.times_s = [item.time_s for item in instants]
        self.in_order = all(first_s <= second_s for first_s, second_s in pairwise(self.times_s))

    def failure(self, row: int) -> Failure:
        """The failure that began with the crash in a row."""
        crash = self.instants[row]
        last = self.next_row((crash.lane, "crash"), row, len(self.instants))
        detect, restart = (self.next_row((crash.lane, category), row, last) for category in ("detect", "restart"))
        known_s = [self.times_s[found] for found in (detect, restart) if found < last]
        until_s = max(known_s) if restart < last else math.inf
        stop = min(last, bisect_right(self.times_s, until_s)) if self.in_order else last
        retries = self.between((crash.lane, "retry"), row, stop)
        return Failure(
            crash,
            self.instants[detect] if detect < last else None,
            self.instants[restart] if restart < last else None,
            tuple(self.instants[retry] for retry in retries if self.times_s[retry] <= until_s),
            tuple(self.instants[rollback] for rollback in self.between((crash.lane, "rollback"), row, last)),
        )

    def between(self, key: tuple[str, str], first: int, last: int) -> list[int]:
        """The rows of a key after the first and before the last of two rows."""
        rows = self.rows.get(key, [])
        return rows[bisect_right(rows, first) : bisect_left(rows, last)]

    def next_row(self, key: tuple[str, str], first: int, last: int) -> int:
        """The first row of a key between two rows; the last of the two where there is none."""
        rows = self.rows.get(key, [])
        place = bisect_right(rows, first)
        return min(rows[place], last) if place < len(rows) else last


def _key(item: Instant) -> tuple[str, str]:
    """Lane and category; of a retry the task that it names, otherwise its lane."""
    if item.category == "retry":
        return str(item.facts.get("task", item.lane)), "retry"
    return item.lane, "crash" if item.category in DEATHS else item.category
