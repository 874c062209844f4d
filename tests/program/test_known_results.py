"""What is known of the results of a jaxpr: numbers, and inputs that are left as they are; judged by what JAX computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.program.known_results import UnchangedInput, known_results

VALUE, OTHER = np.array([1.5, -2.0], np.float32), np.array([3.0, 0.25], np.float32)
ZERO = np.zeros(2, np.float32)
SAME = UnchangedInput(0, "float32")

FUNCTIONS: dict[str, tuple[Any, Callable[..., jax.Array]]] = {
    "plus 0 times a number": (SAME, lambda value, other, zero: value + zero * other),
    "plus 0 by a number": (SAME, lambda value, other, zero: zero / jnp.sqrt(other) + value),
    "minus what is 0 for each branch": (SAME, lambda value, other, zero: value - jnp.where(other > 1, zero, zero * 2)),
    "one of two that are the same": (SAME, lambda value, other, zero: jax.lax.cond(other[0] > 1, lambda: value + zero, lambda: value)),
    "the branch that is known": (SAME, lambda value, other, zero: jax.lax.cond(zero[0] > 1, lambda: other, lambda: value)),
    "inside of jit": (SAME, lambda value, other, zero: jax.jit(lambda a, b: a + b)(value, zero)),
    "wider and back": (SAME, lambda value, other, zero: value.astype(jnp.float32) + zero),
    "numbers": (ZERO + 2, lambda value, other, zero: jnp.exp(zero) * 2),
    "times a number": (None, lambda value, other, zero: value * other),
    "one of two that differ": (None, lambda value, other, zero: jax.lax.cond(other[0] > 1, lambda: value, lambda: value * 2)),
    "narrower and back": (None, lambda value, other, zero: value.astype(jnp.float16).astype(jnp.float32) + zero),
    "turned around": (None, lambda value, other, zero: value[::-1] + zero),
    "in a loop": (None, lambda value, other, zero: jax.lax.fori_loop(0, 3, lambda step, total: total + zero, value)),
}


@pytest.mark.parametrize(("expected", "function"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_what_is_known_is_what_is_computed(expected: Any, function: Callable[..., jax.Array]) -> None:
    (found,) = known_results(jax.make_jaxpr(function)(VALUE, OTHER, ZERO), [None, None, ZERO])
    computed = function(*map(jnp.asarray, (VALUE, OTHER, ZERO)))
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(computed))
        np.testing.assert_array_equal(np.asarray(found), expected)
    else:
        assert found == expected
        assert found is None or np.array_equal(computed, VALUE)
