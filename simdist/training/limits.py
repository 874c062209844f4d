"""Limits for quick trials: ``keras.config.set_max_epochs`` and ``set_max_steps_per_epoch``, or KERAS_MAX_EPOCHS and its like."""

from __future__ import annotations

import warnings

import keras

__all__ = ["limited_epochs", "limited_steps"]


def limited_epochs(epochs: int) -> int:
    """The number of epochs, or as many as Keras was limited to; a smaller one is warned of."""
    limit: int | None = keras.config.max_epochs()
    if not limit or limit >= epochs:
        return epochs
    warnings.warn(f"Limiting epochs to {limit}.", stacklevel=4)
    return limit


def limited_steps(steps: int | None, available: int | None) -> int | None:
    """The number of steps, or as many as Keras was limited to; a smaller one is warned of.

    Args:
        steps: that were asked for; None: all.
        available: how many there will be; None where only the end of the data shows it.
    """
    limit: int | None = keras.config.max_steps_per_epoch()
    if not limit or (available is not None and available <= limit):
        return steps
    warnings.warn(f"Limiting steps_per_epoch to {limit}.", stacklevel=4)
    return limit
