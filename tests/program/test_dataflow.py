"""Labels go through compiled functions, branches and loops, whatever they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.program.dataflow import DataFlow

TABLE = np.array([2.0, 3.0])


class Story(DataFlow[frozenset[str]]):
    """Everything that has happened to a value."""

    def of_constant(self, atom: Any, value: Any) -> frozenset[str]:
        return frozenset({"a table" if np.shape(value) else "a number"} if value is not None else {"unknown"})

    def of_equation(self, eqn: Any, given: Sequence[frozenset[str]]) -> list[frozenset[str]]:
        return [frozenset({eqn.primitive.name}).union(*given)] * len(eqn.outvars)

    def joined(self, one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
        return one | other

    def decided(self, by: frozenset[str], label: frozenset[str]) -> frozenset[str]:
        return label | {f"decided by {name}" for name in by & {"x", "y"}}

    def of_turn(self, label: frozenset[str], var: Any) -> frozenset[str]:
        return label | {"cut"}

    def of_turns(self, label: frozenset[str], var: Any) -> frozenset[str]:
        return label | {"stacked"}


def swapped(x: Any, y: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, pair: (pair[1], -pair[0]), (x, y))[0]


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], set[str]]] = {
    "as it is": (lambda x, y: x, {"x"}),
    "a number": (lambda x, y: x * 2.0, {"x", "mul", "a number"}),
    "a constant": (lambda x, y: TABLE + x, {"x", "add", "a table"}),
    "a compiled function with a constant": (jax.jit(lambda x, y: TABLE + y), {"y", "add", "a table"}),
    "a rule of derivatives": (lambda x, y: jax.nn.relu(x), {"x", "max"}),
    "a branch": (lambda x, y: jax.lax.cond(True, lambda: -x, lambda: y), {"x", "y", "neg"}),
    "turns": (swapped, {"x", "y", "neg"}),
    "a scan": (lambda x, y: jax.lax.scan(lambda _, one: (None, one + x), None, TABLE * y)[1], {"x", "y", "cut", "stacked", "mul", "add"}),
    "an end": (lambda x, y: jax.lax.while_loop(lambda value: value < y, lambda value: value + 1.0, x), {"x", "decided by y"}),
    "a choice": (lambda x, y: jax.lax.cond(y > 0, lambda: x, lambda: x + 1.0), {"x", "add", "decided by y"}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_labels_reach_results_through_every_kind_of_equation(name: str) -> None:
    function, expected = FUNCTIONS[name]
    closed = jax.make_jaxpr(function)(1.0, 2.0)
    (found,) = Story().of_results(closed.jaxpr, [frozenset({"x"}), frozenset({"y"})], closed.consts)
    assert expected <= found
    assert not ({"x", "y"} - expected) & found, "a label that does not reach the result"


def test_constants_whose_values_are_not_given_are_asked_for_without() -> None:
    closed = jax.make_jaxpr(lambda x: jnp.asarray(TABLE) + x)(1.0)
    (found,) = Story().of_results(closed.jaxpr, [frozenset()])
    assert "unknown" in found
