"""Which arguments of a jaxpr reach which of its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from simdist.program.dependencies import labels_of_results


def counted(x: Any, y: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, pair: (pair[1], pair[1]), (x, y))


def scanned(x: Any, y: Any) -> Any:
    carry, each = jax.lax.scan(lambda carry, given: (carry + given, carry), x, jnp.stack([y, y]))
    return carry, each, y


def until(x: Any, y: Any) -> Any:
    return jax.lax.while_loop(lambda pair: pair[0] < 3, lambda pair: (pair[0] + 1, pair[1] * 2), (x, y))


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[int]]] = {
    "apart": (lambda x, y: (x + 1, y * 2), [1, 2]),
    "together": (lambda x, y: (x + y, y, 1.0), [3, 2, 0]),
    "compiled": (jax.jit(lambda x, y: (y, x)), [2, 1]),
    "a branch": (lambda x, y: jax.lax.cond(True, lambda: (x, y), lambda: (2 * x, 2 * y)), [1, 2]),
    "a choice": (lambda x, y: jax.lax.cond(x > 0, lambda: (x, y), lambda: (0.0, 0.0)), [1, 3]),
    "a loop": (counted, [3, 2]),
    "a scan": (scanned, [3, 3, 2]),
    "a condition": (until, [1, 3]),
    "a derivative of its own": (lambda x, y: (jax.nn.relu(x), y), [1, 2]),
    "computed again": (jax.checkpoint(lambda x, y: (jnp.sin(x), y)), [1, 2]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_depend_on_what_reaches_them(name: str) -> None:
    function, expected = FUNCTIONS[name]
    assert labels_of_results(jax.make_jaxpr(function)(1.0, 2.0).jaxpr, [1, 2]) == expected
