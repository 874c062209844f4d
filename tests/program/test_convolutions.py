"""Convolutions with their axes in order: the same numbers, the same bits as XLA's own order gives, and as fast in a loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

from convolved import LAYOUTS, convolved
from simdist.program.convolutions import with_axes_in_order
from simdist.program.jaxprs import equations_in
from simdist.program.kernels import compiler_options


@pytest.mark.parametrize("options", [{}, {"window_strides": (2, 1), "padding": "VALID"}, {"rhs_dilation": (2, 2)}])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_convolution_and_its_derivatives_have_the_bits_that_they_have_in_a_program(layout: str, options: dict[str, Any]) -> None:
    function, arrays = convolved(LAYOUTS[layout], **options)
    closed = with_axes_in_order(jax.make_jaxpr(function)(*arrays))
    found = jax.jit(jaxpr_as_fun(closed), compiler_options=compiler_options())(*arrays)
    expected = jax.tree_util.tree_leaves(jax.jit(function, compiler_options=compiler_options())(*arrays))
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_in_a_loop_xla_writes_the_code_that_it_writes_for_a_program() -> None:
    function, arrays = convolved(LAYOUTS["channels first"])
    closed = jax.make_jaxpr(lambda *stacks: lax.map(lambda lane: function(*lane), stacks))(*(np.stack([array] * 2) for array in arrays))
    ordered = with_axes_in_order(closed)
    orders = [eqn.params["dimension_numbers"] for eqn in equations_in(ordered.jaxpr) if eqn.primitive.name == "conv_general_dilated"]
    assert len(orders) == 3 and len(set(orders)) == 1
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    text = jax.jit(jaxpr_as_fun(ordered), compiler_options=compiler_options()).lower(*specs).compile().as_text()
    labels = {line.split("dim_labels=")[1].split(",")[0].split()[0] for line in text.splitlines() if " convolution(" in line}
    assert labels == {"b01f_01io->b01f"}


def test_what_is_in_order_or_has_no_convolution_is_left_as_it_is() -> None:
    x, kernel = jnp.ones((1, 5, 5, 2)), jnp.ones((3, 3, 2, 3))
    in_order = jax.make_jaxpr(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))(
        x, kernel
    )
    plain = jax.make_jaxpr(lambda x, w: x.sum() + w.sum())(x, kernel)
    assert with_axes_in_order(in_order) is in_order
    assert with_axes_in_order(plain) is plain
