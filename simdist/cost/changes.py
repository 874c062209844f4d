"""What a change of stored arrays computes: those that stay as they are cost nothing, and neither does what nobody reads."""

from __future__ import annotations

from jax.extend.core import ClosedJaxpr

from simdist.caches import of_each
from simdist.program.jaxprs import needed_for
from simdist.program.kernels import Kernel

__all__ = ["changing"]


@of_each("kernels of changes")
def changing(kernel: Kernel) -> Kernel:
    """A kernel that gives only those arrays that another one changes; mostly that one itself.

    Example:
        >>> import jax.numpy as jnp
        >>> from simdist.program.kernels import kernel_of
        >>> from simdist.program.values import Aval
        >>> kernel = kernel_of("count", lambda table, count: [table, count + 1], [Aval((1000,), "float32"), Aval((), "int32")])
        >>> [[aval.shape for aval in avals] for avals in (changing(kernel).in_avals, changing(kernel).out_avals)]
        [[()], [()]]
    """
    jaxpr = kernel.closed.jaxpr
    # Its first inputs are the arrays, and its outputs what stands in their places then.
    outvars = [new for old, new in zip(jaxpr.invars, jaxpr.outvars, strict=False) if new is not old]
    eqns, needed = needed_for(jaxpr, outvars)
    invars = [var for var in jaxpr.invars if var in needed]
    if len(eqns) == len(jaxpr.eqns) and len(invars) == len(jaxpr.invars):
        return kernel
    return Kernel(kernel.name, ClosedJaxpr(jaxpr.replace(invars=invars, outvars=outvars, eqns=eqns), kernel.closed.consts))
