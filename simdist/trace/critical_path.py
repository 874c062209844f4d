"""The critical path: the chain of causes that ends with the last span, and so the only work worth making faster.

The walk begins at the end of the span that ended last and goes back, always to the latest-ending span that the present
one waited for:

- on its own lane, the last span that was over when it began;
- an ``apply`` with a fact ``worker``: also what that worker did. The worker's ``update`` span lasts until the servers
  have confirmed, so it contains the apply: up to the start of the apply it was the message on its way, and from the end
  of its last apply on it is the confirmation. Where the server was busy until the apply began, the server's earlier
  work was the cause, and not the message;
- a ``read`` with a fact ``server`` (a lane or several): also what that server did, until the read was over;
- a ``collective``: what the last participant to arrive did before. Its participants are the spans of this category with
  the same name and end.

A ``closure`` contains its parts, so it is on the path only if it has none. A span without duration decides nothing and
is never on it.

Invariants: segments are in order of time and tile [0, end]: each begins where the wait before it ends, and its wait
begins where the segment before it ends. Equal logs have equal paths.

Source: Kelley and Walker, "Critical-Path Planning and Scheduling", 1959; for distributed programs, Yang and Miller,
"Critical path analysis for the execution of parallel and distributed programs", 1988.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from simdist.trace.event_log import EventLog
from simdist.trace.records import Span

__all__ = ["CriticalPath", "Segment", "critical_path"]

CONTAINER = "closure"

Key = tuple[float, int]  # a moment of a span and its row
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
        category, texts = self.log.spans.category, self.log.names.texts
        durations_s: dict[str, list[float]] = {}
        for row, start_s, end_s in self.parts:
            durations_s.setdefault(texts[category[row]], []).append(end_s - start_s)
        sums = {name: math.fsum(parts) for name, parts in durations_s.items()}
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def _waits_s(self) -> list[float]:
        ends_s = [0.0, *(end_s for _, _, end_s in self.parts)]
        return [start_s - before_s for (_, start_s, _), before_s in zip(self.parts, ends_s, strict=False)]


def critical_path(trace: EventLog) -> CriticalPath:
    """The chain of spans that decided when the run was over.

    Args:
        trace: the log of the run.

    Returns:
        The path; durations and waits of its segments add up to the end of the last of these spans; none for a log without any.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 2.0)
        >>> _ = trace.span("ps:0", "apply", "sgd", 3.0, 3.5, worker="worker:0")
        >>> _ = trace.span("worker:0", "update", "update", 2.0, 4.0)
        >>> [(part.span.category, part.duration_s, part.waited_s) for part in critical_path(trace).segments]
        [('compute', 2.0, 0.0), ('update', 1.0, 0.0), ('apply', 0.5, 0.0), ('update', 0.5, 0.0)]
    """
    return CriticalPath(tuple(reversed(_Walk(trace).parts())), trace)


class _Walk:
    """The way back from the last span, on the columns of a log."""

    def __init__(self, trace: EventLog) -> None:
        columns = trace.spans.columns()
        texts = trace.names.texts
        self.start_s: list[float] = columns["start_s"].tolist()
        self.end_s: list[float] = columns["end_s"].tolist()
        self.lane = [texts[code] for code in columns["lane"].tolist()]
        self.category = [texts[code] for code in columns["category"].tolist()]
        self.name: list[int] = trace.spans.name.tolist()
        self.leaves = _leaf_rows(trace)
        self.rows = len(self.lane)
        self.ends = _sorted(_grouped(self.leaves, self.lane), self.end_s)
        worker = dict(zip(*_lists(trace.spans.values_of("worker")), strict=True))
        self.worker = {row: str(worker[row]) for row in self.leaves if self.category[row] == "apply" and row in worker}
        self.applies = _sorted(_grouped(self.worker, self.worker), self.end_s)
        servers = dict(zip(*_lists(trace.spans.values_of("server")), strict=True))
        self.servers = {row: _lanes(servers[row]) for row in self.leaves if self.category[row] == "read" and row in servers}
        updates = [row for row in self.leaves if self.category[row] == "update"]
        self.updates = _sorted(_grouped(updates, self.lane), self.start_s)
        collectives = (row for row in self.leaves if self.category[row] == "collective")
        self.peers: dict[tuple[int, float], list[int]] = {}
        for row in collectives:
            self.peers.setdefault((self.name[row], self.end_s[row]), []).append(row)

    def parts(self) -> list[Part]:
        """What is on the path, the last first."""
        parts: list[Part] = []
        row = max(self.leaves, key=lambda leaf: (self.end_s[leaf], leaf), default=None)
        while row is not None:
            row = self._through(row, parts)
        return parts

    def _through(self, row: int, parts: list[Part]) -> int | None:
        """Add a span that the path reaches at its end, and return the span that the path reaches next at its end."""
        if self.category[row] == "collective":
            row = self._last_to_arrive(row)
        inner = self._inner(row)
        if inner is not None:
            parts.append((row, self.end_s[inner], self.end_s[row]))
            return inner
        parts.append((row, self.start_s[row], self.end_s[row]))
        message = self._message(row)
        if message is None:
            return self._before(row)
        # The path goes on in the middle of the worker's update, as the message that was on its way.
        parts.append((message, self.start_s[message], self.start_s[row]))
        return self._before(message)

    def _last_to_arrive(self, row: int) -> int:
        """Of the participants that began last, the one that was kept longest by what it did before."""
        peers = self.peers[(self.name[row], self.end_s[row])]
        latest_s = max(self.start_s[peer] for peer in peers)
        late = [peer for peer in peers if self.start_s[peer] == latest_s]
        return max(late, key=lambda peer: (self._end_before(peer), peer == row, -peer))

    def _end_before(self, row: int) -> float:
        before = self._before(row)
        return -math.inf if before is None else self.end_s[before]

    def _inner(self, row: int) -> int | None:
        """The last span of another lane that this one waited for while it went on."""
        if self.category[row] == "update":
            found = self._latest([self.applies.get(self.lane[row], [])], self.end_s[row])
            return found if found is not None and self.start_s[found] >= self.start_s[row] else None
        servers = [self.ends.get(lane, []) for lane in self.servers.get(row, ()) if lane != self.lane[row]]
        found = self._latest(servers, self.end_s[row])
        return found if found is not None and self.end_s[found] > self.start_s[row] else None

    def _message(self, row: int) -> int | None:
        """The worker's update that was on its way when an apply began, unless the server was busy until then."""
        if row not in self.worker:
            return None
        before = self._latest([self.ends[self.lane[row]]], self.start_s[row])
        if before is not None and self.end_s[before] == self.start_s[row]:
            return None
        updates = self.updates.get(self.worker[row], [])
        index = bisect_right(updates, (self.start_s[row], self.rows)) - 1
        if index < 0 or self.end_s[updates[index][1]] <= self.start_s[row]:
            return None
        return updates[index][1]

    def _before(self, row: int) -> int | None:
        """The latest-ending span that was over when this one began, of all that it waited for."""
        lanes = {self.lane[row], *self.servers.get(row, ())}
        if row in self.worker:
            lanes.add(self.worker[row])
        return self._latest([self.ends.get(lane, []) for lane in sorted(lanes)], self.start_s[row])

    def _latest(self, sequences: Sequence[Sequence[Key]], until_s: float) -> int | None:
        """The latest-ending span that was over by a moment; of several, the one that was recorded last."""
        best: Key | None = None
        for ends in sequences:
            index = bisect_right(ends, (until_s, self.rows)) - 1
            if index >= 0 and (best is None or ends[index] > best):
                best = ends[index]
        return None if best is None else best[1]


def _leaf_rows(trace: EventLog) -> list[int]:
    """All rows except spans without duration and closures that contain other spans of their lane."""
    columns = trace.spans.columns()
    closures = trace.spans.rows_where(category=CONTAINER)
    leaf = columns["end_s"] > columns["start_s"]
    for lane in np.unique(columns["lane"][closures]).tolist():
        own = closures[columns["lane"][closures] == lane]
        parts = np.flatnonzero((columns["lane"] == lane) & (columns["category"] != columns["category"][own[0]]))
        starts_s = np.append(np.sort(columns["start_s"][parts]), np.inf)
        first_s = starts_s[np.searchsorted(starts_s[:-1], columns["start_s"][own])]
        leaf[own] &= first_s >= columns["end_s"][own]
    return np.flatnonzero(leaf).tolist()


def _grouped(rows: Iterable[int], key: Sequence[str] | Mapping[int, str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(key[row], []).append(row)
    return groups


def _sorted(groups: dict[str, list[int]], time_s: Sequence[float]) -> dict[str, list[Key]]:
    return {name: sorted((time_s[row], row) for row in rows) for name, rows in groups.items()}


def _lists(found: tuple[np.ndarray, list[object]]) -> tuple[list[int], list[object]]:
    return found[0].tolist(), found[1]


def _lanes(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)
