"""Uses of rows: the same counts, however many calls are added up at once; filling is no row."""

from __future__ import annotations

import numpy as np
import pytest

from simdist.runtime.simulated import row_uses
from simdist.runtime.simulated.row_uses import RowTally


@pytest.mark.parametrize("together", [1, 5, 1 << 16])
def test_counts_do_not_depend_on_when_calls_are_added_up(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_uses, "TOGETHER", together)
    rng, num_rows = np.random.default_rng(0), 9
    tally, expected = RowTally(num_rows), np.zeros(num_rows, int)
    for _ in range(20):
        rows = np.unique(rng.integers(0, num_rows, 4))
        tally.add(np.concatenate([rows, np.full(4 - len(rows), num_rows)]).astype(np.int32))
        expected[rows] += 1
        assert tally.totals().tolist() == expected.tolist()


def test_what_is_noted_is_bounded() -> None:
    tally = RowTally(10)
    for _ in range(1_000):
        tally.add(np.arange(500, dtype=np.int32) % 10)
        assert sum(rows.size for rows in tally._noted) <= row_uses.TOGETHER
