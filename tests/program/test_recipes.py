"""What leads to each result of a jaxpr, and nothing of what leads to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.program.recipes import Recipe, recipes

TABLE = np.arange(3, dtype=np.float32)


def found(function: Callable[..., Any], *arguments: str) -> list[Recipe]:
    return recipes(jax.make_jaxpr(function)(jnp.ones(3), jnp.ones(3)), arguments or ("x", "y"))


@pytest.mark.parametrize("wrapped", [lambda function: function, jax.jit])
def test_each_result_has_the_expression_that_leads_to_it(wrapped: Callable[..., Any]) -> None:
    first, second, kept = found(wrapped(lambda x, y: (jnp.sin(x) * 0.5, jnp.sin(y) * 0.5, x)))
    assert first != second and kept == "x"
    assert found(wrapped(lambda x, y: (jnp.sin(x) * 0.5, jnp.sin(y) * 0.5)), "x", "x") == [first, first]


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: x * 0.2,
        lambda x, y: x * 0.1 * 0.1,
        lambda x, y: 0.1 - (x * 0.1),
        lambda x, y: y * 0.1,
        lambda x, y: x * TABLE,
        lambda x, y: x * TABLE[::-1],
        lambda x, y: jax.lax.cond(x[0] > 7.0, lambda x: x * 0.1, jnp.cos, x),
        lambda x, y: jax.lax.cond(x[0] > 8.0, lambda x: x * 0.1, jnp.cos, x),
        lambda x, y: jax.lax.fori_loop(0, 3, lambda _, total: total * 0.1, x),
        lambda x, y: jax.lax.fori_loop(0, 4, lambda _, total: total * 0.1, x),
        lambda x, y: jax.lax.while_loop(lambda x: x[0] < 2.0, lambda x: x * 0.1, x),
    ],
)
def test_another_expression_is_another_recipe(other: Callable[..., Any]) -> None:
    (one,), (another,) = found(lambda x, y: x * 0.1), found(other)
    assert one != another
    assert found(other) == [another]
    assert found(lambda x, y: (y + 1.0, other(x, y)))[1:] == [another], "whatever else there is"


def test_the_shape_and_the_direction_of_a_table_count() -> None:
    tables = [TABLE, TABLE[::-1].copy(), TABLE.astype(np.int32)]
    assert len({found(lambda x, y, table=table: x * table)[0] for table in tables}) == 3


def test_a_branch_differs_from_another_one_and_from_what_decides() -> None:
    def of(function: Any) -> Any:
        return recipes(jax.make_jaxpr(function)(1.0, 2.0), ["x", "y"])[0]

    found = [
        of(lambda x, y: jax.lax.cond(x > 0.0, lambda: y + 1.0, lambda: y + 2.0)),
        of(lambda x, y: jax.lax.cond(x > 0.0, lambda: y + 1.0, lambda: y + 3.0)),
        of(lambda x, y: jax.lax.cond(x > 0.0, lambda: y + 4.0, lambda: y + 2.0)),
        of(lambda x, y: jax.lax.cond(x > 1.0, lambda: y + 1.0, lambda: y + 2.0)),
    ]
    assert len(set(found)) == 4 and found[0] == of(lambda x, y: jax.lax.cond(x > 0.0, lambda: y + 1.0, lambda: y + 2.0))
