"""Samples of grids: what CI tries has no mark, the rest is exhaustive, and a sample that tries nothing is an error."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from sampling import covering, examples, mark_the_rest, sampled


class Case:
    """What `mark_the_rest` needs to know of a test of pytest."""

    def __init__(self, name: str, params: dict[str, int], sample: pytest.MarkDecorator | None) -> None:
        self.nodeid = f"tests/test_it.py::{name}[{params}]"
        self.callspec = self
        self.params = params
        self.sample = sample
        self.is_tried = True

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        assert name == "sample"
        return self.sample and self.sample.mark

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        assert marker.name == "exhaustive"
        self.is_tried = False


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


def tried(cases: list[Any]) -> list[Any]:
    mark_the_rest(cases)
    return [case.params for case in cases if case.is_tried]


def test_the_mark_leaves_the_tests_without_it_alone_and_counts_each_test_by_itself() -> None:
    cases = [
        Case(name, {"a": a}, mark)
        for name, mark in (("x", pytest.mark.sample(2)), ("y", None), ("z", pytest.mark.sample(2)))
        for a in range(3)
    ]
    assert tried(cases) == [{"a": 0}, {"a": 2}, {"a": 0}, {"a": 1}, {"a": 2}, {"a": 0}, {"a": 2}]


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("other", "ab")
@pytest.mark.parametrize("number", range(4))
def test_the_mark_may_say_how_many_cases_at_most(number: int, other: str, request: pytest.FixtureRequest) -> None:
    grid = [item for item in request.session.items if item.nodeid.startswith(request.node.nodeid.partition("[")[0])]
    tried = [item.name.partition("[")[2].rstrip("]").split("-") for item in grid if item.get_closest_marker("exhaustive") is None]
    assert len(tried) == 2 and tried[0][0] != tried[1][0] and tried[0][1] != tried[1][1]  # each adds a value of both axes


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", range(4))
def test_pytest_obeys_the_mark(number: int, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("exhaustive") is None) == (number % 2 == 0)


@pytest.fixture(params=["x", "y"])
def of_fixture(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.sample
@pytest.mark.parametrize("last", [np.zeros(2), np.ones(2)], ids=["p", "q"])
@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, 3), (2, 3)], ids="abc")
def test_pytest_tries_each_case_of_each_axis(
    first: int, second: int, last: np.ndarray, of_fixture: str, request: pytest.FixtureRequest
) -> None:
    grid = [item for item in request.session.items if item.nodeid.startswith(request.node.nodeid.partition("[")[0])]
    tried = [item.name.partition("[")[2].rstrip("]").split("-") for item in grid if item.get_closest_marker("exhaustive") is None]
    assert len(tried) == 3
    assert sorted(map(set, zip(*tried, strict=True)), key=min) == [{"a", "b", "c"}, {"p", "q"}, {"x", "y"}]


def test_the_profile_explore_tries_more_examples_and_new_ones() -> None:
    try:
        settings.load_profile("explore")
        explored = examples(3)
        settings.load_profile("ci")
        usual = examples(3)
    finally:
        settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
    assert (usual.max_examples, usual.derandomize) == (3, True)
    assert (explored.max_examples, explored.derandomize) == (120, False)
