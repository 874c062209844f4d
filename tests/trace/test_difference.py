"""Where two logs part."""

from __future__ import annotations

import numpy as np
import pytest

from sampling import covering, sampled
from simdist.trace import Trace
from simdist.trace.difference import first_difference
from simdist.trace.rolling import ROWS_BETWEEN_MARKS


def run(spans: int, other_at: int | None = None, change: str = "time", looks: int = 0) -> Trace:
    """Spans of two lanes, one of which differs."""
    trace = Trace()
    for row in range(spans):
        if row < looks:
            trace.instant("worker:0", "observe", "print", float(row))
        lane = "worker:9" if row == other_at and change == "lane" else f"worker:{row % 2}"
        end_s = row + (1.5 if row == other_at and change == "time" else 1.0)
        version = -1 if row == other_at and change == "fact" else row
        trace.span(lane, "apply", "sgd", float(row), end_s, version=version)
    return trace


ROWS = [0, 7, ROWS_BETWEEN_MARKS - 1, ROWS_BETWEEN_MARKS, 2 * ROWS_BETWEEN_MARKS + 5]
CASES = [(row, change) for row in ROWS for change in ("time", "lane", "fact")]


@pytest.mark.parametrize(("row", "change"), sampled(CASES, covering(CASES)))
def test_first_record_that_differs_is_found(row: int, change: str) -> None:
    spans = 2 * ROWS_BETWEEN_MARKS + 9
    assert first_difference(run(spans), run(spans, row, change)) == row
    assert first_difference(run(spans, row, change), run(spans)) == row


def test_equal_logs_have_no_difference_whatever_was_looked_at() -> None:
    assert first_difference(run(30), run(30)) is None
    assert first_difference(run(30), run(30, looks=5)) is None


@pytest.mark.parametrize("value", [float("nan"), np.float32("nan"), [1.0, float("nan")], np.array([1.0, float("nan")])])
def test_nan_is_equal_to_nan_where_digests_are(value: object) -> None:
    def trace(last: float) -> Trace:
        trace = Trace()
        trace.span("worker:0", "compute", "step", 0.0, 1.0, loss=float("nan"))
        trace.instant("worker:0", "error", "loss", 1.0, loss=value if not isinstance(value, list) else list(value))
        trace.span("worker:0", "compute", "step", 1.0, last, loss=float("nan"))
        return trace

    assert trace(2.0).digest() == trace(2.0).digest() != trace(3.0).digest()
    assert first_difference(trace(2.0), trace(2.0)) is None
    assert first_difference(trace(2.0), trace(3.0)) == 2


def test_instant_whose_facts_differ_is_found() -> None:
    first, second = Trace(), Trace()
    for trace, loss in ((first, float("nan")), (second, 1.0)):
        trace.instant("worker:0", "error", "loss", 1.0, loss=loss)
    assert first_difference(first, second) == first_difference(second, first) == 0


def test_a_beginning_differs_at_its_end() -> None:
    short, long = run(5), run(9)
    assert (first_difference(short, long), first_difference(long, short)) == (5, 5)


def test_instants_count_in_the_order_of_recording() -> None:
    first, second = run(3), run(3)
    first.instant("worker:0", "crash", "crash of worker:0", 3.0)
    second.instant("worker:1", "crash", "crash of worker:1", 3.0)
    first.span("worker:1", "compute", "step", 3.0, 4.0)
    assert first_difference(first, second) == 3
    assert first.record(3).lane == "worker:0"
    assert first.record(4).lane == "worker:1"
    with pytest.raises(IndexError, match="records have the numbers 0 to 4; got 5"):
        first.record(5)


def test_only_the_block_that_differs_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = 4 * ROWS_BETWEEN_MARKS
    first, second = run(spans), run(spans, 3 * ROWS_BETWEEN_MARKS + 1)
    compared: list[int] = []
    monkeypatch.setattr(np, "argmin", lambda same: compared.append(len(same)) or int(np.flatnonzero(~same)[0]))
    assert first_difference(first, second) == 3 * ROWS_BETWEEN_MARKS + 1
    assert compared == [ROWS_BETWEEN_MARKS]
