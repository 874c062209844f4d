"""Counts of rows: the same sums, however many calls are added up at once."""

from __future__ import annotations

import pytest

from simdist.runtime.simulated import row_counts
from simdist.runtime.simulated.row_counts import RowCounts


@pytest.mark.parametrize("together", [1, 3, 100])
def test_sums_do_not_depend_on_when_calls_are_added_up(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_counts, "TOGETHER", together)
    counts = RowCounts()
    for call in range(7):
        counts.add((call, 2, 0))
    assert counts.calls == 7
    assert counts.totals() == ([6, 7, 0], [21, 14, 0])
    counts.add((0, 1, 1))
    assert (counts.calls, counts.totals()) == (8, ([6, 8, 1], [21, 15, 1]))


def test_no_calls_have_no_sums() -> None:
    assert (RowCounts().calls, RowCounts().totals()) == (0, ([], []))
