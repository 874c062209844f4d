"""What leads to each result of a jaxpr, and nothing of what leads to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from simdist.program.recipes import recipes


def found(function: Callable[..., Any]) -> list[set[str]]:
    closed = jax.make_jaxpr(function)(jnp.ones(3), jnp.ones(3))
    return [set(recipe) for recipe in recipes(closed.jaxpr, closed.consts)]


@pytest.mark.parametrize("wrapped", [lambda function: function, jax.jit, jax.checkpoint])
def test_each_result_has_the_operations_and_numbers_that_lead_to_it(wrapped: Callable[..., Any]) -> None:
    assert found(wrapped(lambda x, y: (jnp.sin(x) * 0.5, y - 2.0, x))) == [{"sin", "mul", "0.5"}, {"sub", "2.0"}, set()]


def test_another_number_is_another_recipe() -> None:
    first, second = found(lambda x, y: (x * 0.1, y * 0.2))
    assert first ^ second == {"0.1", "0.2"}


def test_branches_and_loops_are_looked_into() -> None:
    chosen, kept = found(lambda x, y: (jax.lax.cond(x[0] > 7.0, jnp.sin, jnp.cos, x), y))
    assert chosen >= {"sin", "cos", "gt", "7.0"} and kept == set()
    turned, kept = found(lambda x, y: (jax.lax.fori_loop(0, 3, lambda _, total: total + jnp.tanh(x), x), y))
    assert turned >= {"tanh", "add"} and kept == set()
