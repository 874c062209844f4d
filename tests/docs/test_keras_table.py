"""The table in README of what Keras does under each strategy is what it does."""

from __future__ import annotations

import pytest

import keras_table as page
import simdist as sd
from sampling import covering, sampled

INSIDE = page.block(page.README.read_text(encoding="utf-8"))[1]
CELLS = [(row, column) for row in page.ROWS for column in page.COLUMNS]
WRITE_IT = "write it with: python tests/keras_table.py"


def test_the_readme_has_each_row_and_column() -> None:
    cells = page.said(INSIDE)
    assert page.table(lambda row, column: cells[row, column]) == INSIDE, WRITE_IT


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
@pytest.mark.parametrize(("row", "column"), sampled(CELLS, covering(CELLS)))
def test_a_cell_of_the_readme_says_what_is_found(row: str, column: str) -> None:
    assert page.said(INSIDE)[row, column] == page.found(row, column), WRITE_IT


def test_a_cell_that_is_not_as_in_keras_says_no() -> None:
    def refused(strategy: sd.OneDeviceStrategy) -> None:
        raise sd.errors.FailedPreconditionError("no")

    def wrong(strategy: sd.OneDeviceStrategy) -> None:
        assert strategy is None

    assert page.cell(refused, sd.OneDeviceStrategy) == "no: FailedPreconditionError"
    assert page.cell(wrong, sd.OneDeviceStrategy) == "no: AssertionError"
