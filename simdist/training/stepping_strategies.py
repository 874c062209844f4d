"""The strategies that run a model's steps."""

from __future__ import annotations

from typing import TypeAlias

from simdist.strategies.base import Strategy
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["SteppingStrategy", "stepping"]

SteppingStrategy: TypeAlias = SynchronousStrategy | ParameterServerStrategy
"""Its replicas step together, or its workers run closures."""


def stepping(strategy: Strategy, caller: str) -> SteppingStrategy:
    """A strategy that `caller` has to run steps with.

    Raises:
        TypeError: a strategy of a user's own whose steps nobody runs.
    """
    if isinstance(strategy, (SynchronousStrategy, ParameterServerStrategy)):
        return strategy
    raise TypeError(
        f"{caller} cannot run the steps of {type(strategy).__name__}. Make it a subclass of SynchronousStrategy "
        "(simdist.strategies.synchronous), whose replicas step together, or of ParameterServerStrategy."
    )
