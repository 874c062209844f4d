"""Convolutions with their axes in the order that XLA's code for CPUs wants, wherever they stand.

XLA brings a convolution into that order by itself, but only in the outermost computation of a program. Inside of a loop or of what is
compiled apart, it writes simple loops instead, which take seven times as long and add in another order. So the axes are brought into
order before: then a convolution is as fast everywhere, and has the same bits.

The derivative by the kernel of a convolution with groups of features has groups of its batch. XLA gives these an axis of their own, whose
place again depends on where the convolution stands, and which can make it ten to twenty times as slow: where a group has several outputs.
So they are made groups of features, which is the same sum.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from simdist.program.jaxprs import aval_in, substituted
from simdist.program.traces import jaxpr_of

__all__ = ["with_axes_in_order"]


def with_axes_in_order(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same jaxpr, in which the axes of all convolutions are in order: batch, space, feature; those of their kernels: space, in, out.

    None of them has groups of its batch.

    Example:
        >>> convolved = jax.make_jaxpr(lambda x, w: lax.conv(x, w, (1, 1), "SAME"))(jnp.ones((1, 2, 5, 5)), jnp.ones((3, 2, 3, 3)))
        >>> [eqn.primitive.name for eqn in convolved.jaxpr.eqns]
        ['conv_general_dilated']
        >>> [eqn.primitive.name for eqn in with_axes_in_order(convolved).jaxpr.eqns]
        ['transpose', 'transpose', 'conv_general_dilated', 'transpose']
    """
    return substituted(closed, _in_order)


def _in_order(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """What replaces a convolution whose axes are not in order, or that has groups of its batch."""
    if eqn.primitive.name != "conv_general_dilated":
        return None
    given, groups = eqn.params["dimension_numbers"], eqn.params["batch_group_count"]
    last = len(given.lhs_spec) - 1
    space = tuple(range(1, last))
    wanted = lax.ConvDimensionNumbers((0, last, *space), (last, last - 1, *range(last - 1)), (0, last, *space))
    if given == wanted and groups == 1:
        return None

    def run(x: jax.Array, kernel: jax.Array) -> jax.Array:
        (batch, feature, *of_x), (out, into, *of_kernel), (batch_out, feature_out, *of_out) = given
        x, kernel = jnp.transpose(x, (batch, *of_x, feature)), jnp.transpose(kernel, (*of_kernel, into, out))
        params = {**eqn.params, "dimension_numbers": wanted}
        if groups > 1:
            x, params = _with_groups_as_features(x, groups), {**params, "batch_group_count": 1, "feature_group_count": groups}
        made = eqn.primitive.bind(x, kernel, **params)
        return jnp.transpose(made, np.argsort((batch_out, *of_out, feature_out)).tolist())

    specs = [jax.ShapeDtypeStruct(aval.shape, jnp.dtype(aval.dtype)) for aval in map(aval_in, eqn.invars)]
    return jaxpr_of(run, *specs)


def _with_groups_as_features(x: jax.Array, groups: int) -> jax.Array:
    """[groups * n, ..., f] as [n, ..., groups * f]: a convolution with groups of its batch is one with groups of its features."""
    apart = x.reshape(groups, -1, *x.shape[1:])
    return jnp.moveaxis(apart, 0, -2).reshape(*apart.shape[1:-1], groups * x.shape[-1])
