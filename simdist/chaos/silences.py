"""Who was silent when: pauses and lost ways, rebuilt from nothing but the trace.

An instant "pause" or "partition" says when it begins, and as a fact when it ends. The pause of a task ends with its life, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from simdist.chaos.incarnations import Lives
from simdist.trace import Trace

__all__ = ["Cut", "Silences", "Still"]


@dataclass(frozen=True)
class Still:
    """A time in which a task stood still, the longest where several overlap."""

    task: str
    from_s: float
    until_s: float

    def covers(self, time_s: float) -> bool:
        """Whether a moment lies within, and not at one of its ends, as far as rounding can tell."""
        rounding_s = 1e-12 * max(1.0, time_s)
        return self.from_s + rounding_s < time_s < self.until_s - rounding_s


@dataclass(frozen=True)
class Cut:
    """A time in which messages from one task to another were lost."""

    source: str
    target: str
    from_s: float
    until_s: float


class Silences:
    """All pauses and cuts of a run.

    Example:
        >>> trace = Trace()
        >>> trace.instant("worker:0", "pause", "pause of worker:0", 1.0, until=3.0)
        >>> trace.instant("worker:0", "pause", "pause of worker:0", 2.0, until=4.0)
        >>> Silences(trace, Lives(trace)).stills
        [Still(task='worker:0', from_s=1.0, until_s=4.0)]
    """

    def __init__(self, trace: Trace, processes: Lives) -> None:
        self.stills: list[Still] = []
        self.cuts: list[Cut] = []
        for instant in trace.instants:
            task, from_s, until_s = instant.lane, instant.time_s, instant.facts.get("until", inf)
            if instant.category == "pause":
                self._pause(task, from_s, min([until_s, *(down.from_s for down in processes.of(task) if down.from_s >= from_s)]), processes)
            elif instant.category == "partition" and instant.facts["lost"] != "received":
                self.cuts += [Cut(task, peer, from_s, until_s) for peer in str(instant.facts["peer"]).split(", ")]

    def _pause(self, task: str, from_s: float, until_s: float, processes: Lives) -> None:
        if until_s <= from_s or not processes.is_up(task, from_s):
            return
        before = next((still for still in self.stills if still.task == task and still.until_s >= from_s), None)
        if before is not None and not processes.died_between(task, before.from_s, from_s):
            self.stills.remove(before)
            from_s, until_s = before.from_s, max(before.until_s, until_s)
        self.stills.append(Still(task, from_s, until_s))

    @property
    def begun(self) -> bool:
        """Whether anybody ever fell silent."""
        return bool(self.stills or self.cuts)

    @property
    def last_for_ever(self) -> bool:
        """Whether anybody never was heard again."""
        return any(one.until_s == inf for one in (*self.stills, *self.cuts))

    def stood_still(self, task: str, from_s: float, until_s: float) -> bool:
        """Whether the task stood still at some time between two moments."""
        return any(still.task == task and still.from_s < until_s and still.until_s > from_s for still in self.stills)

    def is_heard(self, source: str, target: str, at_s: float) -> bool:
        """Whether a word that one task sends at a moment gets to another."""
        still = any(one.task == source and one.from_s <= at_s < one.until_s for one in self.stills)
        return not still and not any((cut.source, cut.target) == (source, target) and cut.from_s <= at_s < cut.until_s for cut in self.cuts)

    def lasted_s(self, tasks: Iterable[str], before_s: float) -> float:
        """How long it was in all that one of these tasks stood still, or lost messages to or from another of them, up to a moment at
        which it may go on; infinite where one never ends."""
        among = set(tasks)
        times = [(one.from_s, one.until_s) for one in self.stills if one.task in among]
        times += [(cut.from_s, cut.until_s) for cut in self.cuts if cut.source in among and cut.target in among]
        return sum(until_s - from_s for from_s, until_s in times if from_s <= before_s)

    def spread_s(self, before_s: float) -> float:
        """From the first silence to the end of the last that began up to a moment."""
        times = [(one.from_s, one.until_s) for one in (*self.stills, *self.cuts) if one.from_s <= before_s]
        return max((until_s for _, until_s in times), default=0.0) - min((from_s for from_s, _ in times), default=0.0)

    def lost_messages(self, tasks: Iterable[str], before_s: float) -> bool:
        """Whether there was a time up to a moment in which messages between two of these tasks were lost."""
        among = set(tasks)
        return any(cut.source in among and cut.target in among and cut.from_s <= before_s for cut in self.cuts)
