"""Convolutions with groups, whose derivatives are convolutions without groups of batches: the same numbers as those of JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from convolved import LAYOUTS, convolved
from simdist.program.convolutions import with_axes_in_order
from simdist.program.jaxprs import equations_in
from simdist.program.kernels import compiler_options


@pytest.mark.sample
@pytest.mark.parametrize("options", [{}, {"window_strides": (2, 1)}, {"rhs_dilation": (2, 2), "padding": "VALID"}])
@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_convolution_with_groups_has_the_numbers_of_jax(layout: str, groups: int, options: dict[str, Any]) -> None:
    function, arrays = convolved(LAYOUTS[layout], feature_group_count=groups, **options)
    closed = jax.make_jaxpr(function)(*arrays)
    assert any(eqn.params.get("batch_group_count", 1) > 1 for eqn in equations_in(closed.jaxpr))
    ordered = with_axes_in_order(closed)
    assert all(eqn.params.get("batch_group_count", 1) == 1 for eqn in equations_in(ordered.jaxpr))
    found = jax.jit(jaxpr_as_fun(ordered), compiler_options=compiler_options())(*arrays)
    expected = jax.tree_util.tree_leaves(jax.jit(function, compiler_options=compiler_options())(*arrays))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * float(np.abs(other).max()))
