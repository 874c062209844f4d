"""The event log: what happened, who did it, and when, in virtual seconds.

Everything that people see (timelines, summaries, Perfetto files, recovery views, lesson figures) is a view of
this log, and nothing else. Three kinds of record: a *span* is work from one moment to another, an *instant* is
a single moment (a fault, a retry, a detection), and a *counter* is a number that changes (queue length, bytes).

Columns, not objects: a run records millions of spans, so each column is one growing array and names are kept
once. A record is built only when somebody looks at it.

A lane is the place where a record is drawn: a task (``worker:1``) or one device of a task (``worker:0/gpu:1``).

Taught in lesson 00.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

__all__ = ["Counter", "CounterLog", "Instant", "InstantLog", "Names", "Span", "SpanLog", "Trace"]

NO_FACTS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Span:
    """Work of one lane from `start_s` to `end_s`, with facts such as bytes or a closure's number."""

    lane: str
    category: str
    name: str
    start_s: float
    end_s: float
    facts: Mapping[str, Any]

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Instant:
    """One moment of one lane: a fault, a retry, a detection, a restart."""

    lane: str
    category: str
    name: str
    time_s: float
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Counter:
    """The value of a named quantity of one lane, from `time_s` on."""

    lane: str
    name: str
    time_s: float
    value: float


class Names:
    """Strings kept once: a column holds small integers, this table holds the text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        code = self.codes.get(text)
        if code is None:
            code = self.codes[text] = len(self.texts)
            self.texts.append(text)
        return code


class SpanLog(Sequence[Span]):
    """All spans in the order in which they ended, as columns; indexing builds one `Span`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lane = array("i")
        self.category = array("i")
        self.name = array("i")
        self.start = array("d")
        self.end = array("d")
        self.facts: dict[int, Mapping[str, Any]] = {}

    def add(self, lane: str, category: str, name: str, start_s: float, end_s: float, facts: Mapping[str, Any]) -> None:
        code = self.names.code
        if facts:
            self.facts[len(self.lane)] = facts
        self.lane.append(code(lane))
        self.category.append(code(category))
        self.name.append(code(name))
        self.start.append(start_s)
        self.end.append(end_s)

    def __len__(self) -> int:
        return len(self.lane)

    @overload
    def __getitem__(self, index: int) -> Span: ...
    @overload
    def __getitem__(self, index: slice) -> list[Span]: ...
    def __getitem__(self, index: int | slice) -> Span | list[Span]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        text = self.names.texts
        return Span(
            text[self.lane[index]],
            text[self.category[index]],
            text[self.name[index]],
            self.start[index],
            self.end[index],
            self.facts.get(index, NO_FACTS),
        )

    def columns(self) -> dict[str, np.ndarray]:
        """The columns as arrays of length n: lane, category and name as int32 codes, start_s and end_s as float64."""
        return {
            "lane": np.array(self.lane, np.int32),
            "category": np.array(self.category, np.int32),
            "name": np.array(self.name, np.int32),
            "start_s": np.array(self.start, np.float64),
            "end_s": np.array(self.end, np.float64),
        }

    def where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> list[Span]:
        """The spans that match every given word, in order."""
        wanted = {"lane": lane, "category": category, "name": name}
        return [span for span in self if all(v is None or getattr(span, k) == v for k, v in wanted.items())]


class InstantLog(Sequence[Instant]):
    """All instants in order of time."""

    def __init__(self) -> None:
        self.items: list[Instant] = []

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> Instant: ...
    @overload
    def __getitem__(self, index: slice) -> list[Instant]: ...
    def __getitem__(self, index: int | slice) -> Instant | list[Instant]:
        return self.items[index]

    def where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> list[Instant]:
        """The instants that match every given word, in order."""
        wanted = {"lane": lane, "category": category, "name": name}
        return [item for item in self.items if all(v is None or getattr(item, k) == v for k, v in wanted.items())]


class CounterLog(Sequence[Counter]):
    """All counter samples in order of time, as columns."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lane = array("i")
        self.name = array("i")
        self.time = array("d")
        self.value = array("d")

    def add(self, lane: str, name: str, time_s: float, value: float) -> None:
        self.lane.append(self.names.code(lane))
        self.name.append(self.names.code(name))
        self.time.append(time_s)
        self.value.append(value)

    def __len__(self) -> int:
        return len(self.lane)

    @overload
    def __getitem__(self, index: int) -> Counter: ...
    @overload
    def __getitem__(self, index: slice) -> list[Counter]: ...
    def __getitem__(self, index: int | slice) -> Counter | list[Counter]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        text = self.names.texts
        return Counter(text[self.lane[index]], text[self.name[index]], self.time[index], self.value[index])

    def series(self, lane: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Times (seconds, float64) and values (float64) of one counter."""
        codes = self.names.codes
        lane_column, name_column = np.array(self.lane, np.int32), np.array(self.name, np.int32)
        chosen = (lane_column == codes.get(lane, -1)) & (name_column == codes.get(name, -1))
        return np.array(self.time)[chosen], np.array(self.value)[chosen]


class Trace:
    """The log of one cluster: spans, instants and counters, and the views of them.

    Args:
        seed: the seed of the run, which is part of the digest's header.
        enabled: with False nothing but instants is recorded (for measuring what recording costs).

    Example:
        >>> trace = Trace(seed=0)
        >>> trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> trace.instant("worker:0", "crash", "crash of worker:0", 0.5)
        >>> trace.spans[0].duration_s
        0.5
    """

    def __init__(self, seed: int = 0, *, enabled: bool = True) -> None:
        self.seed = seed
        self.enabled = enabled
        self.names = Names()
        self.lanes: list[str] = []
        self.spans = SpanLog(self.names)
        self.instants = InstantLog()
        self.counters = CounterLog(self.names)
        self.totals: dict[tuple[str, str], float] = {}
        self.value_dependent = False

    def declare_lane(self, lane: str) -> None:
        """Give `lane` its place in every picture, in the order of the declarations."""
        if lane not in self.lanes:
            self.lanes.append(lane)

    def span(self, lane: str, category: str, name: str, start_s: float, end_s: float, **facts: Any) -> None:
        """Record work that is over."""
        if self.enabled:
            self.spans.add(lane, category, name, start_s, end_s, facts)

    def instant(self, lane: str, category: str, name: str, time_s: float, **facts: Any) -> None:
        """Record one moment."""
        self.instants.items.append(Instant(lane, category, name, time_s, facts))

    def counter(self, lane: str, name: str, time_s: float, value: float) -> None:
        """Record that a quantity has a new value."""
        if self.enabled:
            self.counters.add(lane, name, time_s, value)

    def total(self, lane: str, name: str, amount: float) -> None:
        """Add to a running sum that has no history (bytes sent by a task, updates applied)."""
        key = (lane, name)
        self.totals[key] = self.totals.get(key, 0) + amount

    def end_s(self) -> float:
        """The last moment that was recorded, in virtual seconds; 0.0 for an empty log."""
        last_span = max(self.spans.end, default=0.0)
        return max(last_span, self.instants[-1].time_s if len(self.instants) else 0.0)

    def digest(self) -> str:
        """Sixteen hexadecimal digits that are equal for two runs exactly when the same things happened at the same times."""
        from simdist.trace.digest import digest

        return digest(self)

    def summary(self) -> dict[str, Any]:
        """The run in numbers: busy time per lane, counts by category, bytes, faults, recovery."""
        from simdist.trace.summary import summary

        return summary(self)

    def to_perfetto(self, path: Any) -> None:
        """Write a file that https://ui.perfetto.dev opens."""
        from simdist.trace.perfetto import to_perfetto

        to_perfetto(self, path)

    def to_dataframe(self) -> Any:
        """All spans as a pandas DataFrame (needs pandas)."""
        from simdist.trace.dataframe import to_dataframe

        return to_dataframe(self)

    def timeline(self, ax: Any = None) -> Any:
        """A static matplotlib picture: one lane per task, time to the right, faults as marks."""
        from simdist.trace.plots import timeline

        return timeline(self, ax=ax)

    def __repr__(self) -> str:
        return f"Trace({len(self.spans)} spans, {len(self.instants)} instants, {self.end_s():.6f} virtual seconds)"
