"""The jaxprs of loops and branches, and the sizes of arrays in them."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core as jex_core

from simdist.program.jaxprs import aval_in, inner_jaxprs, num_elements, size_bytes, variables_in
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
