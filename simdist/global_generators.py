"""The global generators of ``random`` and ``numpy.random``, of which a task may have its own.

What these modules offer are methods of one hidden generator. A task that has its own finds methods of other ones under the same names, so
a switch between tasks moves names and no states. Names that were imported from the modules before (``from random import random``) stay
those of the process.

Invariant: two mains that take turns draw what each of them would draw alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["GlobalGenerators"]

Functions = dict[str, Callable[..., Any]]


def _methods_of(module: Any, owner: object) -> list[str]:
    """The names under which a module offers methods of its hidden generator."""
    return [name for name in dir(module) if getattr(getattr(module, name), "__self__", None) is owner]


_of_random = _methods_of(random, random.random.__self__)  # type: ignore[attr-defined]
_of_numpy = _methods_of(np.random, np.random.rand.__self__)  # type: ignore[attr-defined]


class GlobalGenerators:
    """The global generators of one task.

    Args:
        seed: what they begin with; the task may seed them anew.

    Example:
        >>> one, other = GlobalGenerators(1), GlobalGenerators(1)
        >>> drawn = []
        >>> for generators in (one, other, one, other):
        ...     generators.enter()
        ...     drawn.append((random.random(), float(np.random.rand())))
        ...     generators.leave()
        >>> drawn[0] == drawn[1], drawn[2] == drawn[3], drawn[0] == drawn[2]
        (True, True, False)
    """

    def __init__(self, seed: int) -> None:
        of_random, of_numpy = random.Random(seed), np.random.RandomState(np.random.MT19937(seed))
        self._random: Functions = {name: getattr(of_random, name) for name in _of_random}
        self._numpy: Functions = {name: getattr(of_numpy, name) for name in _of_numpy}
        # These are functions of the module, which use the hidden generator.
        self._numpy.update(seed=of_numpy.seed, sample=of_numpy.random_sample, ranf=of_numpy.random_sample)
        self._outer: tuple[Functions, Functions] | None = None

    def enter(self) -> None:
        """Let the modules draw from these."""
        self._outer = {name: vars(random)[name] for name in self._random}, {name: vars(np.random)[name] for name in self._numpy}
        random.__dict__.update(self._random)
        np.random.__dict__.update(self._numpy)

    def leave(self) -> None:
        """Let the modules draw from what they drew from before."""
        assert self._outer is not None
        random.__dict__.update(self._outer[0])
        np.random.__dict__.update(self._outer[1])
        self._outer = None
