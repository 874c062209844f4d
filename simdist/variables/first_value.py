"""The number that a new variable begins with, also where a step that is being traced makes it."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import jax
import jax.core
import jax.numpy as jnp

from simdist.arguments import shown
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike, DTypeLike, present_value
from simdist.program.narrowing import WIDER_THAN_JAX, canonical, kept_dtype

__all__ = ["checked_dtype", "first_value"]


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


def checked_dtype(name: str, dtype: DTypeLike | None) -> DTypeLike | None:
    """The dtype that a new variable was asked for with; one whose digits JAX does not keep is warned of.

    Raises:
        TypeError: JAX has no such dtype.

    Example:
        >>> checked_dtype("v", "float32"), checked_dtype("v", None)
        ('float32', None)
    """
    if dtype is None:
        return None
    try:
        asked, kept = jnp.dtype(dtype), kept_dtype(dtype)
    except TypeError:
        asked = kept = jnp.dtype("O")
    if asked.name in WIDER_THAN_JAX or not (jnp.issubdtype(kept, jnp.number) or jnp.issubdtype(kept, jnp.bool_)):
        raise TypeError(f"dtype of the variable {name!r} is {shown(dtype)}; expected one of numbers that JAX has, such as 'float32'.")
    # Whole numbers lose nothing: those that do not fit are refused. Python's types ask for no width: in TensorFlow `float` is float32, too.
    has_width = dtype is not float and dtype is not complex
    if has_width and kept.itemsize < asked.itemsize and jnp.issubdtype(asked, jnp.inexact):
        warnings.warn(
            f"The variable {name!r} was asked for as {asked.name} and is {kept.name}: JAX has no wider numbers before "
            'jax.config.update("jax_enable_x64", True), in front of all else.',
            stacklevel=3,
        )
    return dtype
