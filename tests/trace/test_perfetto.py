"""The Perfetto file: valid JSON, named tracks, spans that nest on each of them, whole or absent."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.errors import InvalidArgumentError
from simdist.trace import Trace
from simdist.trace.perfetto import events


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    trace.declare_lane("ps:0")
    trace.declare_lane("worker:0")
    trace.span("worker:0", "compute", "step", 0.25, 0.5, flops=np.float32(8), loss=float("nan"))
    trace.span("worker:0", "closure", "closure 0", 0.25, 1.0)
    trace.span("worker:0/gpu:1", "compute", "step", 0.25, 0.5)
    trace.instant("worker:0", "crash", "crash of worker:0", 1.0)
    trace.instant("worker:0", "retry", "closure 0", 1.0, task="worker:0")
    trace.counter("ps:0", "queue", 0.5, 2.0)
    trace.counter("ps:0", "staleness", 0.5, float("inf"))
    return trace


def written(trace: Trace, directory: Path) -> list[dict[str, Any]]:
    path = directory / "trace.json"
    trace.to_perfetto(path)

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)["traceEvents"]


def of_phase(rows: list[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["ph"] == phase]


def test_processes_are_tasks_and_threads_are_lanes(trace: Trace, tmp_path: Path) -> None:
    meta = of_phase(written(trace, tmp_path), "M")
    processes = {row["pid"]: row["args"]["name"] for row in meta if row["name"] == "process_name"}
    threads = {row["args"]["name"]: processes[row["pid"]] for row in meta if row["name"] == "thread_name"}
    assert list(processes.values()) == ["ps:0", "worker:0"]
    assert threads == {"ps:0": "ps:0", "worker:0": "worker:0", "worker:0/gpu:1": "worker:0"}


def test_spans_are_complete_events_in_microseconds_outer_first(trace: Trace, tmp_path: Path) -> None:
    tracks: dict[int, list[dict[str, Any]]] = {}
    for row in of_phase(written(trace, tmp_path), "X"):
        tracks.setdefault(row["tid"], []).append(row)
    task, _device = sorted(tracks.values(), key=len, reverse=True)
    assert [(row["name"], row["ts"], row["dur"]) for row in task] == [
        ("closure 0", 250_000.0, 750_000.0),
        ("step", 250_000.0, 250_000.0),
    ]
    assert task[1]["args"] == {"flops": 8.0, "loss": "nan"}


def test_instants_are_marks_and_crashes_go_across_the_process(trace: Trace, tmp_path: Path) -> None:
    marks = of_phase(written(trace, tmp_path), "i")
    assert [(row["cat"], row["s"], row["ts"]) for row in marks] == [("crash", "p", 1e6), ("retry", "t", 1e6)]
    assert marks[1]["args"] == {"task": "worker:0"}


def test_counters_are_graphs_without_infinities(trace: Trace, tmp_path: Path) -> None:
    (counter,) = of_phase(written(trace, tmp_path), "C")
    assert (counter["name"], counter["ts"], counter["args"]) == ("queue", 500_000.0, {"value": 2.0})


times = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=15)


@given(times, st.sampled_from([1.0, 1e-9, 0.1, 1 / 3]))
def test_spans_of_one_track_always_nest(rows: list[tuple[int, int]], unit_s: float) -> None:
    trace = Trace()
    for start, length in rows:
        trace.span("a", "compute", "step", start * unit_s, (start + length) * unit_s)
    spans = of_phase(list(events(trace)), "X")
    assert len(spans) == len(rows)
    open_until: dict[int, list[int]] = {}
    for row in spans:
        start, duration = round(row["ts"] * 1000), round(row["dur"] * 1000)
        stack = open_until.setdefault(row["tid"], [])
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or start + duration <= stack[-1]
        stack.append(start + duration)
    assert all(earlier["ts"] <= later["ts"] for earlier, later in pairwise(spans))


def test_spans_that_cross_get_a_track_of_their_own() -> None:
    trace = Trace()
    trace.span("a", "input", "batch", 0.0, 2.0)
    trace.span("a", "compute", "step", 1.0, 3.0)
    rows = list(events(trace))
    first, second = of_phase(rows, "X")
    assert first["tid"] != second["tid"]
    assert [row["args"]["name"] for row in rows if row["name"] == "thread_name"] == ["a", "a (2)"]


def test_same_trace_gives_the_same_bytes(trace: Trace, tmp_path: Path) -> None:
    trace.to_perfetto(tmp_path / "a.json")
    trace.to_perfetto(str(tmp_path / "b.json"))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_missing_directories_are_made(trace: Trace, tmp_path: Path) -> None:
    trace.to_perfetto(tmp_path / "new" / "trace.json")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["trace.json"]


def test_old_file_stays_when_writing_fails(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace.to_perfetto(path)
    before = path.read_bytes()
    trace.instant("worker:0", "place", "w", 3.0, thing=object())
    with pytest.raises(InvalidArgumentError, match="fact of a trace"):
        trace.to_perfetto(path)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["trace.json"]


def test_directory_as_path_raises(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"it is a directory"):
        trace.to_perfetto(tmp_path)


def test_path_below_a_file_raises(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="lies below a file"):
        trace.to_perfetto(tmp_path / "file" / "trace.json")


def test_empty_trace_is_a_valid_file(tmp_path: Path) -> None:
    assert written(Trace(), tmp_path) == []
