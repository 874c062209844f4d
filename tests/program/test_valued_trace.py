"""Tracing with values writes down what an ordinary trace would, and lets code see numbers meanwhile."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex_core

from simdist.program.valued_trace import ValuedTrace, placeholder_of

GIVEN = jex_core.Primitive("given")


@GIVEN.def_abstract_eval
def _aval(*, shape: tuple[int, ...]) -> Any:
    return jax.core.ShapedArray(shape, np.dtype("float32"))


def traced(code: Any, example: Any) -> Any:
    def outermost() -> Any:
        with jex_core.take_current_trace() as outer:
            trace = ValuedTrace(outer, lambda primitive, params: example if primitive is GIVEN else None)
        with jex_core.set_current_trace(trace):
            return placeholder_of(code(GIVEN.bind(shape=np.shape(example))))

    return jax.make_jaxpr(outermost)()


def test_values_decide_the_course_and_the_jaxpr_has_that_course_alone() -> None:
    seen: list[float] = []

    def code(x: Any) -> Any:
        seen.append(float(x.sum()))
        return jnp.sin(x) if x[0] > 0 else jnp.cos(x)

    for sign, primitive in ((1.0, "sin"), (-1.0, "cos")):
        names = [eqn.primitive.name for eqn in traced(code, jnp.full(3, sign)).jaxpr.eqns]
        assert primitive in names
        assert {"sin": "cos", "cos": "sin"}[primitive] not in names
    assert seen == [3.0, -3.0]


def test_gradients_have_values_and_are_written_down() -> None:
    seen: list[Any] = []

    def code(x: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda y: jnp.sum(jax.nn.relu(y) ** 2))(x)
        seen.append((float(value), np.asarray(gradient).tolist(), f"{value:.1f}"))
        return gradient

    closed = traced(code, jnp.array([3.0, -1.0]))
    assert seen == [(9.0, [6.0, 0.0], "9.0")]
    assert closed.out_avals[0].shape == (2,)
