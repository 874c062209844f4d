"""The event log: what happened, who did it, and when, in virtual seconds.

Everything that people see (timelines, summaries, Perfetto files, recovery views, lesson figures) is a view of
this log, and nothing else. This file records; the views stand on it, and `Trace` (trace.py) is the log with its views
as methods.

Invariants: recording never looks at what was recorded, reads no clock and costs well under a microsecond. A log can be
pickled and copied, away from its cluster.

Taught in lesson 00.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from simdist.trace.counter_log import CounterLog
from simdist.trace.instant_log import OBSERVATION, InstantLog
from simdist.trace.records import NO_CAUSE, NO_FACTS, Instant, Names, Span
from simdist.trace.span_log import FULL, SpanLog

__all__ = ["EventLog"]


class EventLog:
    """The log of one cluster: spans, instants, counters and totals.

    Args:
        seed: the seed of the run, which is part of the digest's header (default 0).
        enabled: with False nothing but instants is recorded, for measuring what recording costs (default True).

    Attributes:
        totals: running sums by (lane, name); hot code may add to them itself.
        recorded: how many spans and instants there are; each has a number, its place in the order of recording.
        steps: when the steps of each task ended, in virtual seconds; no part of the digest, as spans show what steps are made of.
        num_steps: how many these are, also while nothing else is recorded.
        gauges: functions that say how other sums stand; called only when a report is made, and no part of the digest.

    Example:
        >>> log = EventLog(seed=0)
        >>> _ = log.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> log.spans[0].duration_s
        0.5
    """

    def __init__(self, seed: int = 0, *, enabled: bool = True) -> None:
        self.seed = seed
        self.enabled = enabled
        self.lanes: list[str] = []
        self.spans = SpanLog()
        self.instants = InstantLog()
        self.counters = CounterLog()
        self.totals: dict[tuple[str, str], float] = {}
        self.steps: dict[str, array[float]] = {}
        self.num_steps = 0
        self.gauges: list[Callable[[], Mapping[tuple[str, str], float]]] = []
        self.recorded = 0
        self._observed: tuple[int, int] | None = None  # how many spans and instants there were when a number was first seen
        self._lanes: set[str] = set()
        self._pending_spans = self.spans.pending

    @property
    def names(self) -> Names:
        """The texts of the spans' lanes, categories and names."""
        return self.spans.names

    def declare_lane(self, lane: str) -> None:
        """Give `lane` its place in every picture, in the order of the declarations."""
        if lane not in self._lanes:
            self._lanes.add(lane)
            self.lanes.append(lane)

    def kind(self, lane: str, category: str, name: str, numbers: Mapping[str, type] = NO_FACTS, **facts: object) -> int:
        """The number of a kind of spans, for `add`.

        Args:
            lane, category, name: what the spans have in common; ``{fact}`` in a name stands for one of the numbers.
            numbers: names and types of facts that differ from span to span, at most two (default none).
            facts: those that are equal in all of them.
        """
        return self.spans.kinds.number(lane, category, name, numbers, facts)

    def add(self, kind: int, start_s: float, end_s: float, a: float = 0.0, b: float = 0.0, cause: int = NO_CAUSE) -> int:
        """Record work that is over, the fast way.

        Args:
            kind: of the span, as `kind` returned it.
            start_s, end_s: in virtual seconds.
            a, b: the numbers that the kind declares, by the alphabet of their names (default 0.0).
            cause: the number of the last record that this work waited for (default -1: none).

        Returns:
            The number of the span, or -1 where nothing is recorded.
        """
        if not self.enabled:
            return NO_CAUSE
        pending = self._pending_spans
        pending += (kind, start_s, end_s, a, b, cause)
        if len(pending) >= FULL:
            self.spans.fold()
        number = self.recorded
        self.recorded = number + 1
        return number

    def span(self, lane: str, category: str, name: str, start_s: float, end_s: float, *, cause: int = NO_CAUSE, **facts: object) -> int:
        """Record work that is over; as `add`, but the kind is looked up.

        Args:
            lane, category: whose work it is, and of what sort.
            name: of the work; ``{fact}`` in it stands for the value of one of the first two facts, by the alphabet, that are numbers.
            start_s, end_s: in virtual seconds.
            cause: the number of the last record that this work waited for (default -1: none).
            facts: any, by name.

        Example:
            >>> log = EventLog()
            >>> _ = log.span("worker:0", "read", "read of {bytes} bytes", 0.0, 0.5, bytes=32)
            >>> log.spans[0].name
            'read of 32 bytes'
        """
        if not self.enabled:
            return NO_CAUSE
        kind, a, b = self.spans.kinds.derive(lane, category, name, facts)
        return self.add(kind, start_s, end_s, a, b, cause)

    def instant(self, lane: str, category: str, name: str, time_s: float, *, cause: int = NO_CAUSE, **facts: object) -> int:
        """Record one moment, and return its number."""
        self.instants.add(Instant(lane, category, name, time_s, facts, cause), len(self.spans))
        number = self.recorded
        self.recorded = number + 1
        return number

    def record(self, number: int) -> Span | Instant:
        """The span or instant of a number.

        Raises:
            IndexError: there is no such record.
        """
        if not 0 <= number < self.recorded:
            raise IndexError(f"records have the numbers 0 to {self.recorded - 1}; got {number}.")
        place = self.instants.count_before(number)
        is_instant = place < len(self.instants) and self.instants.number(place) == number
        return self.instants[place] if is_instant else self.spans[number - place]

    def span_numbers(self) -> np.ndarray:
        """The number of each span, by row: int64 of shape (n,)."""
        rows = np.arange(len(self.spans))
        return rows + np.searchsorted(np.array(self.instants.spans_before, np.int64), rows, side="right")

    def span_rows(self) -> np.ndarray:
        """The row of each span by its number, -1 for the numbers of instants: int64 of shape (recorded,)."""
        rows = np.full(self.recorded, -1, np.int64)
        rows[self.span_numbers()] = np.arange(len(self.spans))
        return rows

    def counter(self, lane: str, name: str, time_s: float, value: float) -> None:
        """Record that a quantity has a new value."""
        if self.enabled:
            self.counters.add(lane, name, time_s, value)

    def total(self, lane: str, name: str, amount: float) -> None:
        """Add to a running sum that has no history (bytes sent by a task, updates applied)."""
        key = (lane, name)
        self.totals[key] = self.totals.get(key, 0) + amount

    def step_ended(self, task: str, time_s: float) -> None:
        """A task has taken a step."""
        if self.enabled:
            ends_s = self.steps.get(task)
            if ends_s is None:
                ends_s = self.steps[task] = array("d")
            ends_s.append(time_s)
        self.num_steps += 1

    def step_undone(self, task: str) -> None:
        """The last step of a task does not count: another task has failed in it."""
        if self.enabled:
            self.steps[task].pop()
        self.num_steps -= 1

    def observed(self) -> None:
        """Code that decides (a notebook, a closure, a callback, a predicate) has seen a number that was computed."""
        if self._observed is None:
            self._observed = len(self.spans), len(self.instants)

    @property
    def value_dependent(self) -> bool:
        """Whether anything happened after a number had been seen: then the course of the run may depend on it.

        Where it is False, the digest is the same on every kind of machine.

        Example:
            >>> log = EventLog()
            >>> log.observed(), log.value_dependent
            (None, False)
            >>> _ = log.instant("worker:0", "crash", "crash of worker:0", 1.0)
            >>> log.value_dependent
            True
        """
        if self._observed is None:
            return False
        spans, instants = self._observed
        return len(self.spans) > spans or any(item.category != OBSERVATION for item in self.instants.items[instants:])

    def sums(self) -> dict[tuple[str, str], float]:
        """All totals, and what the gauges show now."""
        sums = dict(self.totals)
        for gauge in self.gauges:
            sums.update(gauge())
        return sums

    def end_s(self) -> float:
        """The last moment that was recorded, in virtual seconds; 0.0 for an empty log."""
        ends_s = self.spans.end
        last_span_s = float(ends_s.max()) if len(ends_s) else 0.0
        return max(last_span_s, self.instants[-1].time_s if len(self.instants) else 0.0)

    def __getstate__(self) -> dict[str, object]:
        """Plain data, for pickle and copy: instead of the gauges, what they show now."""
        readings = [partial(dict, gauge()) for gauge in self.gauges]
        return {**self.__dict__, "gauges": readings}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.spans)} spans, {len(self.instants)} instants, {self.end_s():.6f} virtual seconds)"
