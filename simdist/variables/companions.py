"""Companions: variables that a strategy keeps beside another one from step to step, as an optimizer keeps its slots.

A residual of compression is one, and the value from which replicas have gone their own ways. A checkpoint that saves a variable saves its
companions. Where it has none of them, or those of another number of replicas, they begin anew.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.program.arrays import ArrayLike
from simdist.variables.variable import Variable

__all__ = ["keep_beside"]


def keep_beside(main: Variable, name: str, beginning: Callable[[], ArrayLike], **options: Any) -> Variable:
    """Make a companion of a variable.

    Args:
        main: the variable.
        name: of the companion; it has to be a new one.
        beginning: gives the value that it has now, and again after a restore that has nothing for it.
        options: of the new variable.
    """
    assert name not in main.companions
    companion = Variable(beginning(), f"{main.name}/{name}", **options)
    companion.beginning = beginning
    main.companions = {**main.companions, name: companion}
    return companion
