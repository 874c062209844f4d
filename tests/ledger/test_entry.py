"""Entries: what a call is given of the table that feeds its rows."""

from __future__ import annotations

import numpy as np

from simdist.data.table import Table
from simdist.ledger.entry import Branch, Site
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval


def test_rows_that_follow_each_other_are_given_to_a_call_as_they_lie_in_the_table() -> None:
    table = Table.from_leaves([np.arange(80_000, dtype=np.float32).reshape(8_000, 10)], "leaf")
    site = Site(kernel_of("sum", lambda rows: (rows.sum(),), [Aval((2, 3_984, 10), "float32")]), (), (), [])
    branch = Branch(site, table, ())
    rows, key = np.arange(16, 8_000 - 16).reshape(2, -1), np.zeros(2, np.uint32)
    given = branch.arguments((rows, key))
    np.testing.assert_array_equal(given[0], table.columns[0][rows])
    assert np.shares_memory(given[0], table.columns[0])
    assert given[1] is key
