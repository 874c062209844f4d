"""Who was silent when: pauses, lost machines and lost ways, rebuilt from nothing but the trace.

An instant "pause", "partition", "drop" or "delay" says when it begins, and as a fact when it ends. The pause of a task ends with its
life, too; a lost machine is silent until the task starts again. Messages that are late count as lost until the last of them may come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from simdist.chaos.incarnations import Incarnations
from simdist.faults.messages import kinds_of
from simdist.trace import Instant, Trace

__all__ = ["Cut", "Silences", "Still"]


@dataclass(frozen=True)
class Still:
    """A time in which a task was paused, the longest where several overlap."""

    task: str
    from_s: float
    until_s: float

    def covers(self, time_s: float) -> bool:
        """Whether a moment lies within, and not at one of its ends, as far as rounding can tell."""
        rounding_s = 1e-12 * max(1.0, time_s)
        return self.from_s + rounding_s < time_s < self.until_s - rounding_s


@dataclass(frozen=True)
class Cut:
    """A time in which messages from one task to another were lost.

    Args:
        messages: their kinds; None: all.
        is_sure: whether all of them were lost, and none was only late.
    """

    source: str
    target: str
    from_s: float
    until_s: float
    messages: frozenset[str] = kinds_of(None)
    is_sure: bool = True

    def loses_heartbeats(self, source: str, target: str, at_s: float) -> bool:
        """Whether it befalls a heartbeat that one task sends at a moment to another."""
        hit = (self.source, self.target) == (source, target) and "heartbeat" in self.messages
        return hit and self.from_s <= at_s < self.until_s


class Silences:
    """All pauses and cuts of a run.

    Example:
        >>> trace = Trace()
        >>> _ = trace.instant("worker:0", "pause", "pause of worker:0", 1.0, until=3.0)
        >>> _ = trace.instant("worker:0", "pause", "pause of worker:0", 2.0, until=4.0)
        >>> Silences(trace, Incarnations(trace)).stills
        [Still(task='worker:0', from_s=1.0, until_s=4.0)]
    """

    def __init__(self, trace: Trace, processes: Incarnations) -> None:
        self.stills: list[Still] = []
        self.cuts: list[Cut] = []
        self.lost_hosts: dict[str, float] = {}  # when first
        self._went_on: set[tuple[str, float]] = set()  # tasks whose pause has ended, and when
        for instant in trace.instants:
            task, from_s, until_s = instant.lane, instant.time_s, instant.facts.get("until", inf)
            if instant.category == "pause":
                self._pause(task, from_s, min([until_s, *(down.from_s for down in processes.of(task) if down.from_s >= from_s)]), processes)
            elif instant.category == "heal" and instant.facts.get("kind") == "pause":
                self._went_on.add((task, from_s))
            elif instant.category == "partition" and instant.facts["lost"] != "received":
                self.cuts += [Cut(task, peer, from_s, until_s) for peer in str(instant.facts["peer"]).split(", ")]
            elif instant.category in ("drop", "delay") and instant.facts.get("way") == "sent":
                self.cuts += _losses(instant)
            elif instant.category == "lose_host":
                self.lost_hosts.setdefault(task, from_s)
                back_s = [down.until_s for down in processes.of(task) if down.from_s <= from_s <= down.until_s]
                self.stills.append(Still(task, from_s, max(back_s, default=from_s)))

    def _pause(self, task: str, from_s: float, until_s: float, processes: Incarnations) -> None:
        if until_s <= from_s or not processes.is_up(task, from_s):
            return
        before = next((still for still in self.stills if still.task == task and still.until_s >= from_s), None)
        if before is not None and before.until_s == from_s and (task, from_s) in self._went_on:
            before = None  # the task went on, if only for a moment
        if before is not None and not processes.died_between(task, before.from_s, from_s):
            self.stills.remove(before)
            from_s, until_s = before.from_s, max(before.until_s, until_s)
        self.stills.append(Still(task, from_s, until_s))

    @property
    def begun(self) -> bool:
        """Whether any task ever fell silent."""
        return bool(self.stills or self.cuts)

    @property
    def last_for_ever(self) -> bool:
        """Whether any task never was heard again."""
        return any(one.until_s == inf for one in (*self.stills, *self.cuts))

    def stood_still(self, task: str, from_s: float, until_s: float) -> bool:
        """Whether the task was paused at some time between two moments."""
        return any(still.task == task and still.from_s < until_s and still.until_s > from_s for still in self.stills)

    def is_heard(self, source: str, target: str, at_s: float) -> bool:
        """Whether a message that one task sends at a moment reaches another."""
        still = any(one.task == source and one.from_s <= at_s < one.until_s for one in self.stills)
        return not still and not any(cut.is_sure and cut.loses_heartbeats(source, target, at_s) for cut in self.cuts)

    def is_heard_by_chance(self, source: str, target: str, at_s: float) -> bool:
        """Whether heartbeats from one task to another are lost by chance at a moment, or late."""
        return any(not cut.is_sure and cut.loses_heartbeats(source, target, at_s) for cut in self.cuts)

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
        """Whether there was a time up to a moment in which messages between two of these tasks were lost, on the way or with a machine."""
        among = set(tasks)
        if any(from_s <= before_s for task, from_s in self.lost_hosts.items() if task in among):
            return True
        return any(cut.source in among and cut.target in among and cut.from_s <= before_s for cut in self.cuts)


def _losses(instant: Instant) -> list[Cut]:
    """What a drop or a delay means for whom its task sends to."""
    facts = instant.facts
    late_s = float(facts.get("seconds", 0.0)) + float(facts.get("spread", 0.0))
    until_s = facts.get("until", inf) + late_s
    is_sure = instant.category == "drop" and facts["probability"] >= 1.0
    messages = kinds_of(facts.get("messages"))
    return [Cut(instant.lane, peer, instant.time_s, until_s, messages, is_sure) for peer in str(facts["peer"]).split(", ")]
