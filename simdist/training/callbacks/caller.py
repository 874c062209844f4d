"""Where and when a callback is called: by which main of several, and at which virtual second."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import keras

from simdist.coordinator.returning_servers import with_servers
from simdist.runtime.launched_main import launched_main
from simdist.strategies.base import Strategy
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["is_chief", "is_in_a_main", "is_one_of_several", "model_of", "strategy_or_none", "virtual_now_s", "with_servers_of"]

T = TypeVar("T")


def model_of(callback: keras.callbacks.Callback) -> keras.Model:
    """The model of a callback that is called."""
    model = callback.model
    assert model is not None
    return model


def is_chief(model: keras.Model) -> bool:
    """Whether this program writes the files of a training: the chief's does, among launched mains, and else the only one.

    Args:
        model: of a strategy, or of none.
    """
    strategy = strategy_or_none(model)
    return strategy is None or strategy.is_chief


def is_one_of_several(model: keras.Model) -> bool:
    """Whether other launched mains train the same model at the same time."""
    strategy = strategy_or_none(model)
    return strategy is not None and strategy.launched and strategy.num_workers > 1


def is_in_a_main() -> bool:
    """Whether a launched main runs, beside which others may."""
    return launched_main.get() is not None


def virtual_now_s(model: keras.Model) -> float | None:
    """The present virtual second of the model's cluster; None for a model of no strategy."""
    strategy = strategy_or_none(model)
    return None if strategy is None else strategy.engine.now


def with_servers_of(model: keras.Model, save: Callable[[], T]) -> T:
    """Save or restore a model; again, where one of its parameter servers has died meanwhile, and is back.

    Args:
        model: of a strategy, or of none.
        save: leaves nothing behind where it fails.

    Raises:
        UnavailableError: what a server held is lost.
    """
    strategy = strategy_or_none(model)
    if not isinstance(strategy, ParameterServerStrategy) or strategy.coordinator is None:
        return save()
    return with_servers(strategy.coordinator, save)


def strategy_or_none(model: keras.Model) -> Strategy | None:
    """The strategy of a model; None for a model of no strategy."""
    return getattr(model, "simdist_strategy", None)
