"""Samples of grids: what CI tries has no mark, the rest is exhaustive, and a sample that tries nothing is an error."""

from __future__ import annotations

from itertools import product

import pytest

from sampling import covering, sampled


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


@pytest.mark.parametrize(("axes", "size"), [(("ab", "xyz"), 3), (("abcd", "xy", "12345"), 5), (("a",), 1)])
def test_a_covering_sample_has_each_value_of_each_axis_and_no_case_twice(axes: tuple[str, ...], size: int) -> None:
    grid = list(product(*axes))
    sample = covering(grid)
    assert [set(values) for values in zip(*sample, strict=True)] == [set(axis) for axis in axes]
    assert len(sample) == len(set(sample)) == size and set(sample) <= set(grid)


def test_a_covering_sample_of_a_grid_with_holes_is_of_cases_that_there_are() -> None:
    assert covering([("a", 1), ("b", 1), ("b", 2)]) == [("a", 1), ("b", 2)]
