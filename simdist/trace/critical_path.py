"""The critical path: the chain of causes that ends with the last span, and so the only work worth making faster.

Each record names its cause: the last record that it waited for. The walk begins at the record that ended last and goes
back from cause to cause:

- a cause that was over before the work began, as the compute before an update;
- a cause that ended while the work went on: what comes after its end is on the path, what came before is not. A worker's
  ``update`` ends when the last server has confirmed, so from the end of that ``apply`` on it is the confirmation;
- between the end of a cause and the beginning of the work, what the cause's lane began next is on the path if it
  lasted until then: the message of an ``update`` that was on its way to the server. What a device has made, its task
  sends: where the lane of the device began nothing, that of the task counts. Otherwise it was a wait.

A ``closure`` ends with its last part, so it is on the path only if it has none. Nothing waits for a ``dropped`` one, unless its
worker was kept busy by code of users, which is not interrupted: it is on the path only where it is the last before another
closure or a crash. A span without duration decides nothing and is never on it. A fault waits for nothing: before a crash, the
walk goes on with what the task had done last. Another record without a cause ends the walk: what came before it is a wait.

Gradients that travel while their kernel still runs (on the lane of a device's network) are recorded before it, and cannot
name it. Where nothing else was their cause, the kernels of those who took part were: of the replica that took longest.

Invariants: segments are in order of time and tile [0, end]: each begins where the wait before it ends, and its wait
begins where the segment before it ends. Equal logs have equal paths.

Source: Kelley and Walker, "Critical-Path Planning and Scheduling", 1959; for distributed programs, Yang and Miller,
"Critical path analysis for the execution of parallel and distributed programs", 1988.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from simdist.trace.by_key import sum_by_key
from simdist.trace.event_log import EventLog
from simdist.trace.records import NETWORK, NO_CAUSE, Instant, Span, task_of

__all__ = ["CriticalPath", "Segment", "critical_path"]

DROPPED = "dropped"
CONTAINERS = ("closure", DROPPED)
NO_LANE = -1

Part = tuple[int, float, float]  # row, start_s, end_s


@dataclass(frozen=True)
class Segment:
    """The part of a span that is on the path.

    Attributes:
        span: the whole span.
        start_s, end_s: the part, in virtual seconds.
        waited_s: between the end of the segment before and `start_s`, when nothing that the log knows went on.
    """

    span: Span
    start_s: float
    end_s: float
    waited_s: float

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class CriticalPath:
    """A chain of parts of spans that, with the waits between them, reaches from 0 to `end_s`.

    Attributes:
        parts: earliest first: row of the span in the log, start and end of the part in virtual seconds.
        log: where the spans are.
    """

    parts: tuple[Part, ...]
    log: EventLog = field(repr=False, compare=False)

    @property
    def end_s(self) -> float:
        """The end of the last part, in virtual seconds; 0.0 for an empty path."""
        return self.parts[-1][2] if self.parts else 0.0

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The parts with their spans, and the wait before each."""
        waits_s = self._waits_s()
        rows = zip(self.parts, waits_s, strict=True)
        return tuple(Segment(self.log.spans[row], start_s, end_s, waited_s) for (row, start_s, end_s), waited_s in rows)

    @property
    def waited_s(self) -> float:
        """All waits together, in virtual seconds."""
        return math.fsum(self._waits_s())

    @property
    def seconds(self) -> dict[str, float]:
        """Virtual seconds on the path by category, the longest first."""
        rows, starts_s, ends_s = self._columns
        texts = self.log.names.texts
        sums = sum_by_key(self.log.spans.category[rows], ends_s - starts_s)
        return dict(sorted(((texts[code], sum_s) for code, sum_s in sums.items()), key=lambda item: (-item[1], item[0])))

    def __repr__(self) -> str:
        """What it consists of: of the parts of a long run there are thousands."""
        seconds = [f"{category} {seconds:.6g} s" for category, seconds in self.seconds.items()]
        return f"CriticalPath(to {self.end_s:.6g} s: {', '.join([*seconds, f'waits {self.waited_s:.6g} s'])})"

    def _waits_s(self) -> list[float]:
        _, starts_s, ends_s = self._columns
        return (starts_s - np.concatenate([[0.0], ends_s])[:-1]).tolist()

    @cached_property
    def _columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The parts as columns: rows (int64), starts and ends (float64)."""
        rows = np.array([row for row, _, _ in self.parts], np.int64)
        starts_s = np.array([start_s for _, start_s, _ in self.parts], np.float64)
        return rows, starts_s, np.array([end_s for _, _, end_s in self.parts], np.float64)


def critical_path(trace: EventLog) -> CriticalPath:
    """The chain of spans that decided when the run was over.

    Args:
        trace: the log of the run.

    Returns:
        The path; durations and waits of its segments add up to the end of the last of these spans; none for a log without any.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> compute = trace.span("worker:0", "compute", "step", 0.0, 2.0)
        >>> apply = trace.span("ps:0", "apply", "sgd", 3.0, 3.5, cause=compute)
        >>> update = trace.span("worker:0", "update", "update", 2.0, 4.0, cause=apply)
        >>> [(part.span.category, part.duration_s, part.waited_s) for part in critical_path(trace).segments]
        [('compute', 2.0, 0.0), ('update', 1.0, 0.0), ('apply', 0.5, 0.0), ('update', 0.5, 0.0)]
    """
    return CriticalPath(tuple(reversed(_Walk(trace).parts())), trace)


class _Walk:
    """The way back from the last span, on the columns of a log."""

    def __init__(self, trace: EventLog) -> None:
        spans = trace.spans
        self.trace = trace
        self.lane, self.category, self.start_s, self.end_s = spans.lane, spans.category, spans.start, spans.end
        self._numbers = trace.span_numbers()
        # Read one by one, and the path may be short beside the log: views that give Python's numbers, not lists of all.
        self.starts_s, self.ends_s, self.before = self.start_s.data, self.end_s.data, self._rows_before().data

    def parts(self) -> list[Part]:
        """What is on the path, the last first."""
        parts: list[Part] = []
        dropped = self.trace.names.codes.get(DROPPED, -1)
        lasting = np.flatnonzero((self.end_s > self.start_s) & (self.category != dropped))
        if not len(lasting):
            return parts
        row = int(lasting[::-1][np.argmax(self.end_s[lasting][::-1])])  # of those that end last, the one recorded last
        reached_s = self.ends_s[row]
        while True:
            cause = self.before[row]
            if cause < 0:
                cause = self._before_fault(row)
            ended_s = min(self.ends_s[cause], reached_s) if cause >= 0 else 0.0
            begin_s = max(self.starts_s[row], ended_s)
            if reached_s > begin_s:
                parts.append((row, begin_s, reached_s))
            if ended_s < begin_s and not (cause >= 0 and self._fill(parts, cause, ended_s, begin_s)):
                self._fill_early(parts, row, ended_s)
            if cause < 0:
                return parts
            row, reached_s = cause, ended_s

    def _rows_before(self) -> np.ndarray:
        """For each span the row of the last span that it waited for, or -1: int64. Instants on the way stand for what caused them."""
        cause, number, row_of = self.trace.spans.cause, self._numbers, self.trace.span_rows()
        known = np.flatnonzero((cause > NO_CAUSE) & (cause < number))  # nothing waits for what was recorded after it
        before = np.full(len(cause), NO_CAUSE)
        before[known] = row_of[cause[known]]
        for row in known[before[known] < 0].tolist():
            reached, effect = self._through_instants(int(cause[row]), int(number[row]))
            before[row] = row_of[reached] if NO_CAUSE < reached < effect else NO_CAUSE
        return before

    def _through_instants(self, reached: int, effect: int) -> tuple[int, int]:
        """From the number of a cause and of its effect, back to the first cause that is no instant, or -1, and its effect."""
        while reached in self._instants and reached < effect:
            reached, effect = self._instants[reached].cause, reached
        return reached, effect

    def _before_fault(self, row: int) -> int:
        """Where a fault is the first cause of a span: the row of what its task, or one of its devices, had recorded last; or -1."""
        reached, first = self._through_instants(int(self.trace.spans.cause[row]), int(self._numbers[row]))
        if reached != NO_CAUSE or first not in self._instants:
            return NO_CAUSE
        rows = self._by_task.get(task_of(self._instants[first].lane), self.lane[:0])
        count = int(np.searchsorted(rows, np.searchsorted(self._numbers, first)))
        return int(rows[count - 1]) if count else NO_CAUSE

    @cached_property
    def _by_task(self) -> dict[str, np.ndarray]:
        """By task the rows of its spans and of those of its devices, in the order of recording."""
        tasks, codes = np.unique([task_of(text) for text in self.trace.names.texts], return_inverse=True)
        order = np.argsort(codes[self.lane], kind="stable")
        parts = np.split(order, np.searchsorted(codes[self.lane][order], np.arange(1, len(tasks))))
        return dict(zip(tasks.tolist(), parts, strict=True))

    @cached_property
    def _instants(self) -> dict[int, Instant]:
        """All instants by number."""
        return dict(zip(self.trace.instants.numbers(), self.trace.instants, strict=True))

    def _fill(self, parts: list[Part], cause: int, from_s: float, until_s: float) -> bool:
        """Between a cause and its effect: what the cause's lane, or that of its task, did next, if it lasted until then."""
        order, starts_s, _ = self._by_begin
        lane = int(self.lane[cause])
        while lane != NO_LANE:
            first, last = self._places_of(lane)
            place = first + np.searchsorted(starts_s[first:last], from_s)
            while place < last and starts_s[place] == from_s:
                row = int(order[place])
                if self.ends_s[row] >= until_s:
                    parts.append((row, from_s, until_s))
                    return True
                place += 1
            lane = self._lane_around(lane)
        return False

    def _fill_early(self, parts: list[Part], row: int, from_s: float) -> None:
        """Before what travelled early: the kernel that still ran, of the replica that ended it last."""
        rows, starts_s = self._early
        begin_s = self.starts_s[row]
        peers = rows[np.searchsorted(starts_s, begin_s) : np.searchsorted(starts_s, begin_s, side="right")].tolist()
        if row not in peers:
            return
        running = [work for peer in peers if (work := self._running(self._lane_around(int(self.lane[peer])), begin_s)) >= 0]
        if running:
            work = max(running, key=self.ends_s.__getitem__)
            parts.append((work, max(from_s, self.starts_s[work]), begin_s))

    def _running(self, lane: int, moment_s: float) -> int:
        """The row of what a device computes at a moment; -1: it does not compute."""
        order, starts_s, _ = self._by_begin
        first, last = self._places_of(lane)
        place = first + np.searchsorted(starts_s[first:last], moment_s) - 1
        row = int(order[place]) if place >= first else NO_CAUSE
        is_computing = row >= 0 and self.ends_s[row] >= moment_s and self.category[row] == self.trace.names.codes.get("compute")
        return row if is_computing else NO_CAUSE

    def _lane_around(self, lane: int) -> int:
        """The device of a lane of its network, the task of a device; -1: there is none."""
        names = self.trace.names
        around = names.texts[lane].rpartition("/")[0]
        return names.codes.get(around, NO_LANE) if around else NO_LANE

    def _places_of(self, lane: int) -> tuple[int, int]:
        """Where the rows of a lane are in `_by_begin`."""
        places = self._by_begin[2]
        return (places[lane], places[lane + 1]) if lane != NO_LANE else (0, 0)

    @cached_property
    def _early(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows on lanes of networks by start: rows, starts in virtual seconds."""
        codes = [code for code, text in enumerate(self.trace.names.texts) if text.endswith(NETWORK)]
        rows = np.flatnonzero(np.isin(self.lane, codes))
        order = rows[np.argsort(self.start_s[rows], kind="stable")]
        return order, self.start_s[order]

    @cached_property
    def _by_begin(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Rows of all spans but whole closures, by lane and start: rows, starts in virtual seconds, where each lane begins."""
        names = self.trace.names
        rows = np.flatnonzero(~np.isin(self.category, [names.codes.get(name, -1) for name in CONTAINERS]))
        order = rows[np.lexsort((self.start_s[rows], self.lane[rows]))]
        # A gap asks for one lane, and a path has many gaps: here all lanes are found at once.
        return order, self.start_s[order], np.searchsorted(self.lane[order], np.arange(len(names.texts) + 1)).tolist()
