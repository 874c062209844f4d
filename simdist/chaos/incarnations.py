"""Incarnations of tasks: which task was up when, from the trace alone.

An incarnation ends with the instant "crash" or "lose_host" of a task, the next one begins with its "restart" (the one that names an
incarnation; a main that starts again on a task that was up all the time is no new incarnation).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from simdist.trace import Trace

__all__ = ["Down", "Incarnations"]


@dataclass(frozen=True)
class Down:
    """A time in which a task was down.

    Args:
        task: which.
        from_s: when it died.
        until_s: when it came back; infinite where it never did.
        decided_s: when its last crash happened: that decides whether it comes back.
    """

    task: str
    from_s: float
    until_s: float
    decided_s: float


class Incarnations:
    """The incarnations of all tasks of a run.

    Example:
        >>> trace = Trace()
        >>> _ = trace.instant("worker:0", "crash", "crash of worker:0", 1.0, incarnation=0)
        >>> _ = trace.instant("worker:0", "restart", "restart of worker:0", 3.0, incarnation=1)
        >>> processes = Incarnations(trace)
        >>> processes.downs, processes.is_up("worker:0", 2.0), processes.is_up("worker:0", 3.0)
        ([Down(task='worker:0', from_s=1.0, until_s=3.0, decided_s=1.0)], False, True)
    """

    def __init__(self, trace: Trace) -> None:
        self.downs: list[Down] = []
        since: dict[str, tuple[float, float]] = {}
        for instant in trace.instants:
            if "incarnation" not in instant.facts:
                continue
            if instant.category in ("crash", "lose_host"):
                from_s, _ = since.get(instant.lane, (instant.time_s, 0.0))
                since[instant.lane] = from_s, instant.time_s
            elif instant.category == "restart" and instant.lane in since:
                from_s, decided_s = since.pop(instant.lane)
                self.downs.append(Down(instant.lane, from_s, instant.time_s, decided_s))
        self.downs += [Down(task, from_s, inf, decided_s) for task, (from_s, decided_s) in since.items()]

    def of(self, task: str) -> list[Down]:
        return [down for down in self.downs if down.task == task]

    def is_up(self, task: str, time_s: float) -> bool:
        """At the end of that moment."""
        return not any(down.from_s <= time_s < down.until_s for down in self.of(task))

    def crashed(self, tasks: Iterable[str], before_s: float = inf) -> list[str]:
        """Those of these tasks that have died up to a moment, each once."""
        return [task for task in tasks if any(down.from_s <= before_s for down in self.of(task))]

    def lost(self, tasks: Iterable[str], at_s: float) -> list[str]:
        """Those of these tasks that are down at a moment, and would stay so if nothing else happened to them."""
        return [task for task in tasks if any(_stays_down(down, at_s) for down in self.of(task))]

    def died_between(self, task: str, from_s: float, until_s: float) -> bool:
        """Whether the task died after the one moment and before the other."""
        return any(from_s < down.from_s < until_s for down in self.of(task))


def _stays_down(down: Down, at_s: float) -> bool:
    return down.from_s <= at_s < down.until_s and (down.until_s == inf or down.decided_s > at_s)
