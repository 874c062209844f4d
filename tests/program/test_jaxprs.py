"""The jaxprs of loops and branches, and the sizes of arrays in them."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core as jex_core

from simdist.program.jaxprs import aval_in, frozen, inner_jaxprs, num_elements, size_bytes, variables_in
from simdist.program.values import Aval


def scanned(x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda carry, _: (carry * 2, None), x, None, length=3)[0]


def counted(x: jax.Array) -> jax.Array:
    return jax.lax.while_loop(lambda y: y.sum() < 10, lambda y: y + 1, x)


def branched(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)


@jax.custom_jvp
def with_a_derivative_of_its_own(x: jax.Array) -> jax.Array:
    return x * 3


with_a_derivative_of_its_own.defjvp(lambda primals, tangents: (primals[0] * 3, tangents[0] * 3))


@pytest.mark.parametrize("function", [scanned, counted, branched, jax.jit(jnp.sin), with_a_derivative_of_its_own, jax.checkpoint(jnp.sin)])
def test_inner_jaxprs_are_those_that_jax_finds(function: Callable[[jax.Array], jax.Array]) -> None:
    jaxpr = jax.make_jaxpr(function)(jnp.ones(2)).jaxpr
    for eqn in jaxpr.eqns:
        assert list(map(id, inner_jaxprs(eqn))) == list(map(id, jex_core.jaxprs_in_params(eqn.params)))
    assert any(list(inner_jaxprs(eqn)) for eqn in jaxpr.eqns)


def test_sizes_are_those_of_the_arrays() -> None:
    jaxpr = jax.make_jaxpr(lambda x: x.astype(jnp.bfloat16) @ jnp.ones((3, 5), jnp.bfloat16))(np.ones((2, 3), np.float32)).jaxpr
    assert (num_elements(jaxpr.invars[0]), size_bytes(jaxpr.invars[0])) == (6, 24)
    assert aval_in(jaxpr.outvars[0]) == Aval((2, 5), "bfloat16")
    assert size_bytes(jaxpr.outvars[0]) == 20


def test_numbers_in_a_jaxpr_are_no_variables_of_it() -> None:
    (eqn,) = jax.make_jaxpr(lambda x: x + 1.0)(2.0).jaxpr.eqns
    assert len(eqn.invars) == 2
    assert variables_in(eqn.invars) == [eqn.invars[0]]


def held(factor: np.ndarray) -> dict[str, Callable[[jax.Array], object]]:
    """Functions that use one number in each kind of inner jaxpr."""
    return {
        "itself": lambda x: (x * factor, factor),
        "a compiled function": jax.jit(lambda x: x * factor),
        "a loop": lambda x: jax.lax.scan(lambda carry, _: (carry * factor, factor), x, None, length=3),
        "a condition": lambda x: jax.lax.while_loop(lambda y: y.sum() < factor * 10, lambda y: y + factor, x),
        "a branch": lambda x: jax.lax.cond(x.sum() > 0, lambda y: y * factor, lambda y: y + factor, x),
    }


@pytest.mark.parametrize("place", held(np.array(0)))
def test_a_frozen_jaxpr_does_not_follow_an_array_that_changes_in_place(place: str) -> None:
    factor = np.array(2.0, np.float32)
    function = held(factor)[place]
    traced = jax.make_jaxpr(function)(jnp.ones(2))
    kept, text = frozen(traced), str(traced)
    before = [np.array(value) for value in jax.tree_util.tree_leaves(function(jnp.ones(2)))]
    factor[...] = 7.0
    assert str(traced) != text == str(kept)
    after = jex_core.jaxpr_as_fun(kept)(jnp.ones(2))
    assert [value.tolist() for value in after] == [value.tolist() for value in before]
    assert [value.aval.weak_type for value in kept.jaxpr.outvars] == [value.aval.weak_type for value in traced.jaxpr.outvars]
