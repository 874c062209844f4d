"""Grids of parameters of which CI tries a sample; `pytest -m exhaustive` tries the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["covering", "sampled"]


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


def _mark(chosen: bool) -> Any:
    return () if chosen else pytest.mark.exhaustive
