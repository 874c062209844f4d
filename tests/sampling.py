"""Grids of parameters of which CI tries a sample; `pytest -m exhaustive` tries the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["USUAL_EXAMPLES", "covering", "examples", "mark_the_rest", "sampled"]

# What hypothesis tries in CI where a test does not say otherwise.
USUAL_EXAMPLES = 50


def examples(count: int = USUAL_EXAMPLES, **options: Any) -> settings:
    """Settings of a property: CI tries so many examples, the same ones every time; the profile `explore` more, in proportion, and new ones.

    Args:
        count: of examples in CI.
        options: of `hypothesis.settings`, beside these.
    """
    return settings(max_examples=count * settings.default.max_examples // USUAL_EXAMPLES, deadline=None, **options)


def sampled(cases: Iterable[Any], sample: Collection[Any]) -> list[Any]:
    """The parameters of a test.

    Args:
        cases: the whole grid; a tuple stands for several parameters.
        sample: the cases that CI tries.

    Raises:
        ValueError: the sample is empty, or names a case that there is not.
    """
    grid = list(cases)
    unknown = [one for one in sample if one not in grid]
    if unknown or not sample:
        raise ValueError(f"The sample must name some of the {len(grid)} cases of the grid; got {unknown or 'none'}.")
    return [pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=_mark(one in sample)) for one in grid]


def covering(cases: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A small sample of a grid, which has each value of each parameter at least once; values are told apart by how they are printed.

    Args:
        cases: the whole grid, a tuple for each case.
    """
    left, sample = list(cases), list[tuple[Any, ...]]()
    missing = {(place, str(value)) for case in left for place, value in enumerate(case)}
    while missing:
        best = max(left, key=lambda case: sum((place, str(value)) in missing for place, value in enumerate(case)))
        missing -= {(place, str(value)) for place, value in enumerate(best)}
        sample.append(best)
    return sample


def mark_the_rest(tests: Iterable[pytest.Function]) -> None:
    """Obey `@pytest.mark.sample`: what CI does not try of the cases of such a test gets the mark `exhaustive`.

    `sample` tries a small sample that has each case of each `parametrize` at least once; `sample(at_most=n)` no more than n of these, which
    have as many of them as can be; `sample(n)` every n-th case, from the first on.
    """
    found: dict[str, list[pytest.Function]] = {}
    for test in tests:
        if test.get_closest_marker("sample"):
            found.setdefault(test.nodeid.partition("[")[0], []).append(test)
    for cases in found.values():
        chosen = _tried(cases)
        for test in cases:
            if test not in chosen:
                test.add_marker(pytest.mark.exhaustive)


def _tried(cases: Sequence[pytest.Function]) -> Sequence[pytest.Function]:
    mark = cases[0].get_closest_marker("sample")
    assert mark is not None
    if mark.args:
        return cases[:: mark.args[0]]
    by_place = {_place(test): test for test in cases}
    return [by_place[place] for place in covering(by_place)[: mark.kwargs.get("at_most")]]


def _place(test: pytest.Function) -> tuple[tuple[int, ...], ...]:
    """Which case of each axis it has: an axis is a `parametrize`, or a fixture with parameters.

    Values are known by their identity, as arrays and others have no equality.
    """
    params, declared = test.callspec.params, [mark.args[0] for mark in test.iter_markers("parametrize")]
    axes = [axis.replace(",", " ").split() if isinstance(axis, str) else [*axis] for axis in declared]
    of_fixtures = [[name] for name in params if not any(name in axis for axis in axes)]
    return tuple([tuple([id(params[name]) for name in axis]) for axis in axes + of_fixtures])


def _mark(chosen: bool) -> Any:
    return () if chosen else pytest.mark.exhaustive
