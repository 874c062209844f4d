"""How much memory a kernel needs beside its inputs and outputs: an estimate from its jaxpr.

An intermediate array needs memory when an operation that reads or writes memory (a dot, a convolution, a gather, a
reduction, a loop) makes it or uses it; element-wise operations in between are fused and need none. It lives from the
operation that makes it to the last one that uses it; the largest sum of living ones is the estimate. It does not depend on
the machine that simulates.

Not modelled: XLA's reuse of buffers within one fusion, and workspaces of libraries.
"""

from __future__ import annotations

import math
from typing import Any

from jax.extend import core as jex_core

from simdist.cost.loops import inner_jaxprs
from simdist.program.kernels import Kernel

__all__ = ["temporaries_bytes"]

ELEMENTWISE = frozenset(
    """
    abs add add_any and atan2 broadcast_in_dim ceil clamp convert_element_type copy cos div eq erf exp exp2 expand_dims expm1
    floor ge gt integer_pow is_finite iota le log log1p logistic lt max min mul ne neg not or pow rem reshape round rsqrt
    select_n sign sin sqrt square squeeze stop_gradient sub tanh xor
    """.split()  # noqa: SIM905
)

_known: dict[int, tuple[Kernel, int]] = {}


def temporaries_bytes(kernel: Kernel) -> int:
    """Bytes that one call of a kernel needs beside its inputs and outputs; worked out once for each kernel."""
    if id(kernel) not in _known:
        _known[id(kernel)] = (kernel, _peak(kernel.closed.jaxpr))
    return _known[id(kernel)][1]


def _peak(jaxpr: Any) -> int:
    last_use = {var: position for position, eqn in enumerate(jaxpr.eqns) for var in eqn.invars if not isinstance(var, jex_core.Literal)}
    kept = _kept(jaxpr)
    alive = peak = 0
    ending: dict[int, int] = {}
    for position, eqn in enumerate(jaxpr.eqns):
        for var in eqn.outvars:
            if var in kept:
                alive += kept[var]
                ending[last_use[var]] = ending.get(last_use[var], 0) + kept[var]
        inside = max((_peak(getattr(inner, "jaxpr", inner)) for inner in inner_jaxprs(eqn)), default=0)
        peak = max(peak, alive + inside)
        alive -= ending.pop(position, 0)
    return peak


def _kept(jaxpr: Any) -> dict[Any, int]:
    """Sizes of the intermediates that need memory."""
    results = {var for var in jaxpr.outvars if not isinstance(var, jex_core.Literal)}
    made = {var for eqn in jaxpr.eqns for var in eqn.outvars} - results
    heavy = [eqn for eqn in jaxpr.eqns if eqn.primitive.name not in ELEMENTWISE]
    touched = {var for eqn in heavy for var in (*eqn.invars, *eqn.outvars) if not isinstance(var, jex_core.Literal)}
    used = {var for eqn in jaxpr.eqns for var in eqn.invars if not isinstance(var, jex_core.Literal)}
    return {var: math.prod(var.aval.shape) * var.aval.dtype.itemsize for var in made & touched & used if hasattr(var.aval, "shape")}
