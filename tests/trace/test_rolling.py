"""The rolling digest: known at any moment, whatever was folded when."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simdist.trace import Trace
from simdist.trace.rolling import ROWS_BETWEEN_MARKS, RollingDigest

TEXTS = ["read", "compute", "apply"]
rows = st.lists(st.tuples(st.integers(0, 2), st.floats(allow_nan=False)), max_size=20)


def fed(data: list[tuple[int, float]], pieces: list[int]) -> RollingDigest:
    digest = RollingDigest(TEXTS.__getitem__, 1)
    for first, last in zip([0, *pieces], [*pieces, len(data)], strict=True):
        part = data[first:last]
        if part:
            digest.extend(np.array([code for code, _ in part]), np.array([number for _, number in part]))
    return digest


@given(rows, st.lists(st.integers(0, 20), max_size=4))
def test_pieces_do_not_matter(data: list[tuple[int, float]], cuts: list[int]) -> None:
    pieces = sorted(min(cut, len(data)) for cut in cuts)
    assert fed(data, pieces).digest() == fed(data, []).digest()


@given(rows, rows)
def test_digests_are_equal_exactly_where_the_rows_are(first: list[tuple[int, float]], second: list[tuple[int, float]]) -> None:
    def exact(data: list[tuple[int, float]]) -> list[tuple[int, str]]:
        return [(code, number.hex()) for code, number in data]

    assert (fed(first, []).digest() == fed(second, []).digest()) == (exact(first) == exact(second))


def test_codes_do_not_matter() -> None:
    first = RollingDigest(["a", "b"].__getitem__, 1)
    second = RollingDigest(["unused", "b", "a"].__getitem__, 1)
    first.extend(np.array([0, 1, 0]), np.arange(3.0))
    second.extend(np.array([2, 1, 2]), np.arange(3.0))
    assert first.digest() == second.digest()


def test_marks_are_the_digests_of_beginnings() -> None:
    count = 2 * ROWS_BETWEEN_MARKS + 10
    numbers, codes = np.arange(float(count)), np.arange(count) % 3
    whole, part = (RollingDigest(TEXTS.__getitem__, 1) for _ in range(2))
    for first in range(0, count, 1000):
        whole.extend(codes[first : first + 1000], numbers[first : first + 1000])
    part.extend(codes[:ROWS_BETWEEN_MARKS], numbers[:ROWS_BETWEEN_MARKS])
    assert len(whole.marks) == 2
    assert part.digest() == whole.marks[0] != whole.marks[1]


def test_asking_on_the_way_changes_nothing_and_costs_the_rows_since() -> None:
    asked, calm = Trace(), Trace()
    for row in range(100):
        for trace in (asked, calm):
            trace.span("worker:0", "compute", "step", float(row), row + 1.0, step=row)
            trace.counter("chief:0", "queue", float(row), row)
        before = asked.spans.rolling.rows
        asked.digest()
        assert asked.spans.rolling.rows == before + 1
    assert asked.digest() == calm.digest()


def test_copy_of_a_log_goes_on_with_the_digest() -> None:
    trace = Trace(seed=4)
    for row in range(10):
        trace.span("worker:0", "compute", "step", float(row), row + 1.0)
        trace.counter("chief:0", "queue", float(row), row)
    for copied in (pickle.loads(pickle.dumps(trace)), deepcopy(trace)):
        assert copied.digest() == trace.digest()
        copied.span("worker:0", "compute", "step", 10.0, 11.0)
        assert copied.digest() != trace.digest()
        again = deepcopy(trace)
        again.span("worker:0", "compute", "step", 10.0, 11.0)
        assert copied.digest() == again.digest()
