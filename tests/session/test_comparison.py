"""The words in which two runs are told apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import simdist as sd
from simdist.session.comparison import Comparison
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
        (traced(mark="crash"), traced(), "until 2 s, then crash of worker:0 in the first, nothing more in the second"),
        (
            traced(1.0),
            traced(1.5),
            "worker:0 compute step from 0 to 1 s in the first, worker:0 compute step from 0 to 1.5 s in the second",
        ),
        (traced(0.1 + 0.2), traced(0.3), "0 to 0.30000000000000004 s in the first, worker:0 compute step from 0 to 0.3 s in the second"),
        (traced(1.00000639999), traced(1.0000064), "0 to 1.00000639999 s in the first, worker:0 compute step from 0 to 1.0000064 s"),
        (
            traced(size=4),
            traced(size=8),
            '0 to 1 s with {"bytes":4} in the first, worker:0 compute step from 0 to 1 s with {"bytes":8} in',
        ),
    ],
)
def test_records_are_told_apart_in_as_few_words_as_do_it(first: SimpleNamespace, second: SimpleNamespace, words: str) -> None:
    assert words in str(sd.compare(first, second))


@pytest.mark.parametrize(("same_until_s", "until"), [(0.0000125, "0.0125 ms"), (0.9995, "999.5 ms"), (1234.567891, "1234.56789 s")])
def test_moments_are_written_without_exponents(same_until_s: float, until: str) -> None:
    assert str(Comparison(same_until_s, "one", "other")) == f"the same until {until}, then one in the first, other in the second"
