"""The words in which two runs are told apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import simdist as sd
from simdist.trace import Trace


def traced(end_s: float = 1.0, size: int = 4, mark: str = "") -> SimpleNamespace:
    """What has a trace of a step, and of a mark."""
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, end_s, bytes=size)
    if mark:
        trace.instant("worker:0", mark, f"{mark} of worker:0", 2.0)
    return SimpleNamespace(trace=trace)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (traced(mark="crash"), traced(), "until 2000 ms, then crash of worker:0 in the first, nothing more in the second"),
        (
            traced(1.0),
            traced(1.5),
            "worker:0 compute step from 0.0 to 1.0 s in the first, worker:0 compute step from 0.0 to 1.5 s in the second",
        ),
        (
            traced(size=4),
            traced(size=8),
            '0.0 to 1.0 s with {"bytes":4} in the first, worker:0 compute step from 0.0 to 1.0 s with {"bytes":8} in',
        ),
    ],
)
def test_records_are_told_apart_in_as_few_words_as_do_it(first: SimpleNamespace, second: SimpleNamespace, words: str) -> None:
    assert words in str(sd.compare(first, second))
