"""Samples of grids: what CI tries has no mark, the rest is exhaustive, and a sample that tries nothing is an error."""

from __future__ import annotations

import pytest

from sampling import sampled


def test_what_is_not_in_the_sample_is_exhaustive() -> None:
    found = sampled([("a", 1), ("a", 2), "b"], [("a", 2)])
    assert [(one.values, [mark.name for mark in one.marks]) for one in found] == [
        (("a", 1), ["exhaustive"]),
        (("a", 2), []),
        (("b",), ["exhaustive"]),
    ]


@pytest.mark.parametrize("sample", [[], [3], [1, 4]])
def test_a_sample_names_cases_of_its_grid(sample: list[int]) -> None:
    with pytest.raises(ValueError, match="must name some of the 2 cases"):
        sampled([1, 2], sample)
