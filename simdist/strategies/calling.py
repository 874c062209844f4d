"""Calling a step function directly: which strategy runs it, and what the caller gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.program.function import StepFunction
from simdist.strategies import context
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["run_local"]


def run_local(fn: StepFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run a step for a caller that wants its values: under the strategy in scope, or else the one that the step turns to."""
    strategy = context.get_strategy() if context.has_strategy() else fn.strategy or context.get_strategy()
    try:
        return _value(strategy, fn, args, kwargs)
    except context.TakeOver as other:
        strategy.forget(fn)
        fn.strategy = other.strategy
    return _value(fn.strategy, fn, args, kwargs)


def _value(strategy: Any, fn: StepFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if not isinstance(strategy, SynchronousStrategy):
        raise TypeError(
            f"A step was called directly under {type(strategy).__name__}, whose steps run on workers. "
            "Use ClusterCoordinator(strategy).schedule(fn, args=...)."
        )
    outcome = strategy.step(fn, args, kwargs)
    # Timing only: there are no values to give.
    return None if strategy.engine.numerics == "off" else outcome.value()
