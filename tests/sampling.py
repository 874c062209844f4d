"""Grids of parameters of which CI tries a sample; `pytest -m exhaustive` tries the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["sampled"]


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


def _mark(chosen: bool) -> Any:
    return () if chosen else pytest.mark.exhaustive
