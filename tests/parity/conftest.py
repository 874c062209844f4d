"""Two ways to run a function on replicas: at once, from the notebook, and inside a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import simdist as sd

Run = Callable[..., Any]


def at_once(strategy: sd.MirroredStrategy, fn: Callable[..., Any], args: Sequence[Any] = ()) -> Any:
    return strategy.run(fn, args)


def in_a_step(strategy: sd.MirroredStrategy, fn: Callable[..., Any], args: Sequence[Any] = ()) -> Any:
    return sd.function(lambda *given: strategy.run(fn, given))(*args)


@pytest.fixture(params=[at_once, in_a_step], ids=["at once", "in a step"])
def run(request: pytest.FixtureRequest) -> Run:
    """``run(strategy, fn, args)`` is ``strategy.run(fn, args)``."""
    return request.param


@pytest.fixture
def two() -> sd.MirroredStrategy:
    """Two replicas on one machine."""
    return sd.MirroredStrategy(2)
