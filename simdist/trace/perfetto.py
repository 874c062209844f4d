"""A trace as a file for https://ui.perfetto.dev (and chrome://tracing).

The format is Chrome's trace-event JSON: a process for each task, a thread for each lane of it. Spans become complete
events, instants become marks, counters become graphs, facts become arguments, and arrows (flows.py) lead from an update
to where it was applied, and from a crash to its detection, the retries and the restart.

Invariants: times are whole nanoseconds, written as microseconds. Perfetto wants the spans of one thread to nest, so a
span that would cross another one gets a thread of its own. Perfetto ties an end of an arrow to the record that it read
last on that thread, so each end follows its record at once and has its time; that of a crash, which is drawn across the
process, is tied to the down time. The file is valid JSON (no NaN), the same for the same trace, and appears whole or
not at all.

Taught in lesson 00.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from simdist.trace.atomic_file import replacing
from simdist.trace.event_log import EventLog
from simdist.trace.facts import plain
from simdist.trace.flows import recovery_flows, update_flows
from simdist.trace.records import Facts, Span

__all__ = ["events", "to_perfetto"]

Event = dict[str, object]


def to_perfetto(trace: EventLog, path: str | os.PathLike[str]) -> None:
    """Write a trace as a JSON file that Perfetto opens.

    Args:
        trace: the log of a run.
        path: the file; directories that are missing are made, an old file is replaced.

    Raises:
        InvalidArgumentError: if `path` is a directory, or a fact cannot be written.
        ResourceExhaustedError: the disk is full; an old file stays whole.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     to_perfetto(trace, directory + "/trace.json")
        ...     sorted(json.loads(Path(directory, "trace.json").read_text()))
        ['displayTimeUnit', 'traceEvents']
    """
    with replacing(path) as file:
        file.writelines(line.encode() for line in _lines(events(trace)))


def events(trace: EventLog) -> Iterator[Event]:
    """The trace events of a log: names first, then spans and instants, each with its ends of arrows, then counters.

    Args:
        trace: the log of a run.

    Yields:
        Dicts in the trace-event format; every ``ts`` and ``dur`` is in microseconds.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.instant("ps:0", "crash", "crash of ps:0", 0.25)
        >>> [(event["ph"], event.get("ts")) for event in events(trace)]
        [('M', None), ('M', None), ('M', None), ('M', None), ('i', 250000.0)]
    """
    tracks = _Tracks()
    for lane in [*trace.lanes, *(item.lane for item in trace.instants), *(item.lane for item in trace.counters)]:
        tracks.first(lane)
    spans = _spans(trace, tracks)
    yield from tracks.metadata()
    yield from spans
    yield from _instants(trace, tracks)
    for item in trace.counters:
        if math.isfinite(item.value):
            yield {
                "pid": tracks.first(item.lane)["pid"],
                "ph": "C",
                "name": item.name if "/" not in item.lane else f"{item.lane.partition('/')[2]} {item.name}",
                "ts": _microseconds(_nanoseconds(item.time_s)),
                "args": {"value": item.value},
            }


class _Tracks:
    """Numbers for processes (tasks) and threads (tracks of a lane), in the order in which they are asked for."""

    def __init__(self) -> None:
        self.processes: dict[str, int] = {}
        self.threads: dict[tuple[str, int], int] = {}

    def first(self, lane: str) -> Event:
        return self.track(lane, 0)

    def track(self, lane: str, number: int) -> Event:
        process = self.processes.setdefault(lane.partition("/")[0], len(self.processes) + 1)
        return {"pid": process, "tid": self.threads.setdefault((lane, number), len(self.threads) + 1)}

    def metadata(self) -> Iterator[Event]:
        for task, process in self.processes.items():
            yield {"pid": process, "ph": "M", "name": "process_name", "args": {"name": task}}
            yield {"pid": process, "ph": "M", "name": "process_sort_index", "args": {"sort_index": process}}
        # The further tracks of a lane come right below its first.
        lanes = list(dict.fromkeys(lane for lane, _ in self.threads))
        order = sorted(self.threads, key=lambda key: (lanes.index(key[0]), key[1]))
        for place, (lane, number) in enumerate(order):
            local_rank_of = self.track(lane, number)
            name = lane if number == 0 else f"{lane} ({number + 1})"
            yield {**local_rank_of, "ph": "M", "name": "thread_name", "args": {"name": name}}
            yield {**local_rank_of, "ph": "M", "name": "thread_sort_index", "args": {"sort_index": place}}


def _instants(trace: EventLog, tracks: _Tracks) -> Iterator[Event]:
    arrows = _Arrows("recovery", recovery_flows(trace))
    for row, item in enumerate(trace.instants):
        event = {
            **tracks.first(item.lane),
            "ph": "i",
            "s": "p" if item.category == "crash" else "t",  # a crash is drawn across the whole process
            "cat": item.category,
            "name": item.name,
            "ts": _microseconds(_nanoseconds(item.time_s)),
            "args": _arguments(item.facts),
        }
        yield event
        yield from arrows.at(row, event)


class _Arrows:
    """Flows of one name as pairs of events: ``s`` at the cause, ``f`` at the effect."""

    def __init__(self, name: str, flows: list[tuple[int, int]]) -> None:
        self.name = name
        self.ends: dict[int, list[tuple[str, int]]] = {}
        for number, (cause, effect) in enumerate(flows, start=1):
            self.ends.setdefault(effect, []).append(("f", number))
            self.ends.setdefault(cause, []).append(("s", number))

    def at(self, row: int, event: Event) -> Iterator[Event]:
        """The ends of arrows that belong to the record of a row, which `event` shows."""
        for phase, number in self.ends.get(row, ()):
            place = {key: event[key] for key in ("pid", "tid", "ts")}
            # bp "e": the arrow ends at the enclosing record, and not at the next one.
            yield {**place, "ph": phase, "cat": "flow", "name": self.name, "id": number, **({"bp": "e"} if phase == "f" else {})}


def _spans(trace: EventLog, tracks: _Tracks) -> list[Event]:
    """Complete events, outer before inner, each on the first track of its lane on which it nests."""
    timed = [(_nanoseconds(span.start_s), _nanoseconds(span.end_s), span) for span in trace.spans]
    # Spans are recorded when they end, so of two with equal times the later recorded one is the outer one.
    order = sorted(range(len(timed)), key=lambda row: (timed[row][0], -timed[row][1], -row))
    open_ends: dict[str, list[list[int]]] = {}
    arrows = _Arrows("update", update_flows(trace))
    rows: list[Event] = []
    for row in order:
        rows.append(_span_event(*timed[row], tracks, open_ends))
        rows += arrows.at(row, rows[-1])
    return rows


def _span_event(start: int, end: int, span: Span, tracks: _Tracks, open_ends: dict[str, list[list[int]]]) -> Event:
    number = _nesting_track(open_ends.setdefault(span.lane, []), start, end)
    return {
        **tracks.track(span.lane, number),
        "ph": "X",
        "cat": span.category,
        "name": span.name,
        "ts": _microseconds(start),
        "dur": _microseconds(end - start),
        "args": _arguments(span.facts),
    }


def _nesting_track(stacks: list[list[int]], start: int, end: int) -> int:
    """The first track whose open spans (kept as their ends, outermost first) contain this one; it is opened there."""
    for number, stack in enumerate(stacks):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or end <= stack[-1]:
            stack.append(end)
            return number
    stacks.append([end])
    return len(stacks) - 1


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _microseconds(nanoseconds: int) -> float:
    return nanoseconds / 1000


def _arguments(facts: Facts) -> Event:
    return {key: _json_value(value) for key, value in facts.items()}


def _json_value(value: object) -> object:
    """A fact as JSON allows it: NaN and infinities as text, keys as text."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in cast("list[object]", value)]
    return _json_value(plain(value))


def _lines(rows: Iterable[Event]) -> Iterator[str]:
    yield '{"displayTimeUnit": "ms", "traceEvents": ['
    separator = "\n"
    for row in rows:
        yield separator + json.dumps(row, allow_nan=False)
        separator = ",\n"
    yield "\n]}\n"
