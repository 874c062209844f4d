"""When the results of a kernel are there: how far its work has come when the last operation that a result needs is done.

The backward pass of a network makes the gradients of its last layers first. A pack of gradients that is complete can travel
while the kernel goes on with the others. The work of an operation is taken to be its multiplications and additions where it
is a matrix product or a convolution, otherwise one for each element that it makes; operations run in the order of the jaxpr.

Not modelled: another order that a compiler may choose, and that small operations have a price of their own.
"""

from __future__ import annotations

import math
from typing import Any

from jax.extend import core as jex_core

from simdist.cost.loops import inner_jaxprs, trips_of
from simdist.program.kernels import Kernel

__all__ = ["ready_fractions"]


def ready_fractions(kernel: Kernel) -> list[float]:
    """For each result of a kernel, the part of the kernel's work after which it is there: from 0 to 1.

    Args:
        kernel: whose results.

    Example:
        >>> import jax.numpy as jnp
        >>> from simdist.program.kernels import kernel_of
        >>> from simdist.program.values import Aval
        >>> two = kernel_of("two products", lambda a: [a @ a, (a + 1) @ a], [Aval((100, 100), "float32")])
        >>> [round(fraction, 2) for fraction in ready_fractions(two)]
        [0.5, 1.0]
    """
    jaxpr = kernel.closed.jaxpr
    done, total = {}, 0.0
    for eqn in jaxpr.eqns:
        total += _work(kernel.name, jaxpr, eqn)
        for var in eqn.outvars:
            done[var] = total
    return [done.get(var, 0.0) / total if total and not isinstance(var, jex_core.Literal) else 0.0 for var in jaxpr.outvars]


def _work(name: str, jaxpr: Any, eqn: Any) -> float:
    inner = [getattr(found, "jaxpr", found) for found in inner_jaxprs(eqn)]
    if inner:
        return trips_of(name, jaxpr, eqn) * max(sum(_work(name, part, own) for own in part.eqns) for part in inner)
    made = sum(math.prod(var.aval.shape) for var in eqn.outvars)
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return 2.0 * made * math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
    if eqn.primitive.name == "conv_general_dilated":
        kernel_shape, spec = eqn.invars[1].aval.shape, eqn.params["dimension_numbers"].rhs_spec
        return 2.0 * made * math.prod(kernel_shape) / kernel_shape[spec[0]]
    return float(made)
