"""What views of a log cost: rows that are read, counted, against the rows of the log. Nothing here measures time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simdist.trace import Trace, critical_path
from simdist.trace.instant_log import InstantLog
from simdist.trace.span_log import SpanLog

ROUNDS = 100


class Searches:
    """numpy, whose `searchsorted` counts the numbers that it has to convert: all, where what is sought has another type."""

    def __init__(self) -> None:
        self.converted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def searchsorted(self, column: np.ndarray, sought: Any, side: Any = "left") -> Any:
        self.converted += len(column) if np.asarray(sought).dtype != column.dtype else 0
        return np.searchsorted(column, sought, side=side)


def gaps_between_kernels() -> Trace:
    """A chain of kernels with a wait before each."""
    trace = Trace()
    cause = -1
    for number in range(ROUNDS):
        cause = trace.span(f"worker:{number % 4}", "compute", "step", 1.0 + number, 1.5 + number, cause=cause)
    return trace


def early_sums() -> Trace:
    """Gradients that travel while their kernels still run, again and again."""
    trace = Trace()
    cause = -1
    for number in range(ROUNDS):
        for device in ("worker:0/gpu:0", "worker:1/gpu:0"):
            trace.span(device, "compute", "step", float(number), number + 0.75, cause=cause)
        for device in ("worker:0/gpu:0", "worker:1/gpu:0"):  # their cause is what came before the kernels
            last = trace.span(f"{device}/network", "collective", "ring", number + 0.5, number + 0.875, cause=cause)
        cause = trace.span("chief:0", "compute", "update", number + 0.875, number + 1.0, cause=last)
    return trace


@pytest.mark.parametrize("build", [gaps_between_kernels, early_sums])
def test_a_critical_path_reads_the_columns_of_the_log_once_and_not_once_for_each_gap(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, searches, reads = build(), Searches(), SimpleNamespace(count=0)
    by_kind = SpanLog._by_kind

    def counted(spans: SpanLog, field: int) -> np.ndarray:
        reads.count += 1
        return by_kind(spans, field)

    monkeypatch.setattr(critical_path, "np", searches)
    monkeypatch.setattr(SpanLog, "_by_kind", counted)
    assert len(trace.critical_path().segments) >= ROUNDS - 1
    assert searches.converted <= 3 * len(trace.spans)
    assert reads.count <= 4


def test_a_record_is_found_without_the_numbers_of_all_instants(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    for number in range(ROUNDS):
        trace.instant("worker:0", "retry", f"retry {number}", float(number))
        trace.span("worker:0", "compute", f"step {number}", float(number), number + 0.5)
    monkeypatch.setattr(InstantLog, "numbers", lambda _: pytest.fail("all numbers"))
    assert [trace.record(number).name for number in range(4)] == ["retry 0", "step 0", "retry 1", "step 1"]
    assert trace.record(2 * ROUNDS - 1).name == f"step {ROUNDS - 1}"


def test_a_summary_asks_once_for_the_down_times_of_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, asked = Trace(), list[Any]()
    for worker in range(ROUNDS):
        trace.span(f"worker:{worker}", "down", "down", 1.0, 2.0)
        trace.instant(f"worker:{worker}", "crash", "crash", 3.0)
    trace.span("ps:0", "compute", "step", 0.0, 4.0)
    rows_where = SpanLog.rows_where
    monkeypatch.setattr(SpanLog, "rows_where", lambda spans, **words: asked.append(words) or rows_where(spans, **words))
    assert {lane["seconds"]["down"] for name, lane in trace.summary()["lanes"].items() if name != "ps:0"} == {2.0}
    assert len(asked) < 10
