"""Losses of steps that nobody has read yet: whether one of them was NaN.

The newest loss does not tell: a worker of parameter servers may have read the variables before another one has spoilt them, and a step
that looks up other rows of a table never sees the spoilt one.
"""

from __future__ import annotations

from typing import Protocol

import jax
import numpy as np

from simdist.program.per_replica import PerReplica

__all__ = ["UncheckedLosses"]

MOST = 1_000
"""Losses that are kept until they are read, which computes them."""


class Loss(Protocol):
    """What a step has returned."""

    def value(self) -> object: ...


class UncheckedLosses:
    """The losses since the last call of `had_nan`.

    Example:
        >>> from types import SimpleNamespace
        >>> losses = UncheckedLosses()
        >>> for loss in (1.0, float("nan"), 2.0):
        ...     losses.add(SimpleNamespace(value=lambda loss=loss: loss))
        >>> losses.had_nan(), losses.had_nan()
        (True, False)
    """

    def __init__(self) -> None:
        self._kept: list[Loss] = []
        self._had_nan = False

    def add(self, loss: Loss) -> None:
        """A step was taken."""
        self._kept.append(loss)
        if len(self._kept) == MOST:
            self._read()

    def had_nan(self) -> bool:
        """Whether one of them was NaN since the last call."""
        self._read()
        found, self._had_nan = self._had_nan, False
        return found

    def _read(self) -> None:
        # The newest first: what it needs is computed at once, and has most of the others with it.
        self._had_nan |= any(np.isnan(leaf).any() for loss in reversed(self._kept) for leaf in _leaves(loss.value()))
        self._kept.clear()


def _leaves(value: object) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(value.values if isinstance(value, PerReplica) else value)]
