"""The table in README of what Keras does under each strategy is what it does."""

from __future__ import annotations

import pytest

import keras_table as page
import simdist as sd


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
def test_the_readme_has_the_table_that_is_found() -> None:
    _, inside, _ = page.block(page.README.read_text(encoding="utf-8"))
    assert inside == page.table(), "write it with: python tests/keras_table.py"


def test_a_cell_that_is_not_as_in_keras_says_no() -> None:
    def refused(strategy: sd.OneDeviceStrategy) -> None:
        raise sd.errors.FailedPreconditionError("no")

    def wrong(strategy: sd.OneDeviceStrategy) -> None:
        assert strategy is None

    assert page.cell(refused, sd.OneDeviceStrategy) == "no: FailedPreconditionError"
    assert page.cell(wrong, sd.OneDeviceStrategy) == "no: AssertionError"
