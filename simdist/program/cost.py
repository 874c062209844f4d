"""What a kernel costs: floating-point operations and bytes, from the program that XLA would compile.

Flops are those of XLA's own analysis of the lowered program, always for the CPU platform, so that a schedule does not
depend on the machine that simulates it; bodies of scans count as often as they run. Bytes are those of dots,
convolutions, gathers and scatters, and of the kernel's own inputs and outputs: fused element-wise operations move none.

Not modelled: caches, the precise fusion that a compiler would choose, occupancy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jex_core

from simdist.program.kernels import Kernel
from simdist.program.values import num_bytes

__all__ = ["Cost", "cost_of"]

MOVES_MEMORY = ("dot_general", "conv_general_dilated", "gather", "scatter", "scatter-add", "scatter_add", "sort")


@dataclass(frozen=True, eq=False)
class Cost:
    """Floating-point operations and bytes moved."""

    flops: float
    bytes_moved: float

    def share(self, devices: int) -> Cost:
        """What each of so many devices has to do that share the work evenly."""
        return self if devices == 1 else Cost(self.flops / devices, self.bytes_moved / devices)


_costs: dict[int, tuple[Kernel, Cost]] = {}


def cost_of(kernel: Kernel) -> Cost:
    """The cost of one call of a kernel; computed once for each kernel.

    Source: the roofline model (Williams, Waterman, Patterson, Roofline, 2009) uses these two numbers.
    """
    known = _costs.get(id(kernel))
    if known is None:
        used = [aval for aval, used in zip(kernel.in_avals, kernel.used, strict=True) if used]
        forwarded = {v for v in kernel.closed.jaxpr.outvars if v in kernel.closed.jaxpr.invars}
        made = [a for a, v in zip(kernel.out_avals, kernel.closed.jaxpr.outvars, strict=True) if v not in forwarded]
        bytes_moved = num_bytes(used) + num_bytes(made) + _bytes_inside(kernel.closed.jaxpr)
        known = _costs[id(kernel)] = (kernel, Cost(_flops(kernel.function, kernel.closed), bytes_moved))
    return known[1]


def _flops(function: Callable[..., Any], closed: Any) -> float:
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    lowered = jax.jit(function).trace(*specs).lower(lowering_platforms=("cpu",))
    analysis = lowered.cost_analysis() or {}
    flops = float(analysis.get("flops", 0.0)) + float(analysis.get("transcendentals", 0.0))
    for times, inner in _loops(closed.jaxpr):
        # XLA counts a loop's body once.
        flops += (times - 1) * _flops(jex_core.jaxpr_as_fun(inner), inner)
    return max(flops, 0.0)


def _loops(jaxpr: Any) -> Iterator[tuple[int, Any]]:
    """The scans of a jaxpr with their trip counts; those inside a scan belong to its body."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            yield eqn.params["length"], eqn.params["jaxpr"]
        else:
            for inner in _inner(eqn):
                yield from _loops(getattr(inner, "jaxpr", inner))


def _inner(eqn: Any) -> Iterator[Any]:
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(item, "eqns") or hasattr(item, "jaxpr"):
                yield item


def _bytes_inside(jaxpr: Any) -> float:
    total = 0.0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in MOVES_MEMORY:
            total += sum(_size(v) for v in (*eqn.invars, *eqn.outvars))
        times = eqn.params["length"] if eqn.primitive.name == "scan" else 1
        total += times * sum(_bytes_inside(getattr(inner, "jaxpr", inner)) for inner in _inner(eqn))
    return total


def _size(var: Any) -> float:
    return float(math.prod(var.aval.shape) * var.aval.dtype.itemsize)
