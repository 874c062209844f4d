"""The number that a new variable begins with, also where a step that is being traced makes it."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.core

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike, DTypeLike, present_value
from simdist.program.narrowing import canonical

__all__ = ["first_value"]


def first_value(name: str, given: ArrayLike | Callable[[], ArrayLike], dtype: DTypeLike | None) -> jax.Array:
    """The number itself, also where a variable is made by a step that is being traced."""
    with jax.ensure_compile_time_eval():
        value = given() if callable(given) else given
        if isinstance(present_value(value), jax.core.Tracer):
            raise InvalidArgumentError(
                f"The initial_value of {name!r} was computed in a step, where it has no number yet. Give a function that computes it, "
                f"sd.Variable(lambda: ...), or make the variable outside of the step."
            )
        return canonical(value, name, dtype)
