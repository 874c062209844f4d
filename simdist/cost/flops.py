"""What a kernel costs: floating-point operations and bytes, from the program that XLA would compile.

Flops are those of XLA's own analysis of the lowered program, always for the CPU platform, so that a schedule does not
depend on the machine that simulates it; bodies of loops count as often as they run, and of a ``cond`` the dearest branch
counts, because which one is taken depends on values. What XLA does not know, `simdist.cost.by_hand` counts. Bytes: `simdist.cost.moved`.

Not modelled: caches, the precise fusion that a compiler would choose, occupancy.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import cast

import jax
from jax.core import ShapedArray
from jax.extend import core as jex_core
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.stages import Wrapped

from simdist.caches import of_each
from simdist.cost.by_hand import flops_by_hand, stand_in
from simdist.cost.loops import bodies_seen, trips_of
from simdist.cost.moved import bytes_moved
from simdist.errors import FailedPreconditionError
from simdist.program.jaxprs import inner_jaxprs, substituted, variables_in
from simdist.program.kernels import Kernel

__all__ = ["Cost", "cost_of"]


@dataclass(frozen=True, eq=False)
class Cost:
    """Floating-point operations and bytes moved; or, where the user has declared it, seconds."""

    flops: float
    bytes_moved: float
    seconds: float | None = None

    def share(self, devices: int) -> Cost:
        """What each of so many devices has to do that share the work evenly."""
        return self if devices == 1 or self.seconds is not None else Cost(self.flops / devices, self.bytes_moved / devices)


@of_each("costs of kernels")
def cost_of(kernel: Kernel) -> Cost:
    """The cost of one call of a kernel; computed once for each kernel.

    Raises:
        FailedPreconditionError: a while loop whose number of trips depends on values.

    Source: the roofline model (Williams, Waterman, Patterson, Roofline, 2009) uses these two numbers.
    """
    counted = substituted(kernel.closed, stand_in)
    once = _flops_once(kernel.on_cpus, counted) if counted is kernel.closed else _flops_seen(counted)
    flops = max(0.0, once + _flops_beside(kernel.name, counted.jaxpr))
    return Cost(flops, bytes_moved(kernel.name, kernel.closed))


def _flops_beside(name: str, jaxpr: Jaxpr) -> float:
    """What is to be added to what XLA counts, which is a loop's body once, and of each ``cond`` the dearest branch without its turns."""
    total = 0.0
    for eqn in jaxpr.eqns:
        kind = eqn.primitive.name
        if kind in ("scan", "while"):
            body = eqn.params["jaxpr" if kind == "scan" else "body_jaxpr"]
            seen = _flops_seen(body)
            total += trips_of(name, jaxpr, eqn) * (seen + _flops_beside(name, body.jaxpr)) - bodies_seen(eqn) * seen
        elif kind == "cond":
            total += _flops_beside_cond(name, jaxpr, eqn)
        else:
            total += flops_by_hand(eqn) + sum(_flops_beside(name, inner) for inner in _run_by(eqn))
    return total


def _run_by(eqn: JaxprEqn) -> list[Jaxpr]:
    """The inner jaxprs that an equation runs; a linear solve also has the matrix, and what its derivatives need."""
    return [eqn.params["jaxprs"].solve.jaxpr] if eqn.primitive.name == "custom_linear_solve" else list(inner_jaxprs(eqn))


def _flops_beside_cond(name: str, jaxpr: Jaxpr, eqn: JaxprEqn) -> float:
    branches = eqn.params["branches"]
    if not any(_flops_beside(name, branch.jaxpr) for branch in branches):
        return 0.0
    alone = jaxpr.replace(constvars=[], invars=list(dict.fromkeys(variables_in(eqn.invars))), outvars=eqn.outvars, eqns=[eqn])
    return max(_flops_seen(branch) + _flops_beside(name, branch.jaxpr) for branch in branches) - _flops_seen(ClosedJaxpr(alone, []))


def _flops_seen(closed: ClosedJaxpr) -> float:
    """What XLA counts of a jaxpr by itself."""
    return _flops_once(jax.jit(jex_core.jaxpr_as_fun(closed)), closed)


def _flops_once(jitted: Wrapped, closed: ClosedJaxpr) -> float:
    avals = [cast("ShapedArray", var.aval) for var in closed.jaxpr.invars]
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    with _a_cpu_by_default():
        analysis = jitted.trace(*specs).lower(lowering_platforms=("cpu",)).cost_analysis()
    if analysis is None:
        raise FailedPreconditionError("XLA says nothing about the operations of a program for a CPU, from which costs are known.")
    return max(0.0, float(analysis.get("flops", 0.0))) + max(0.0, float(analysis.get("transcendentals", 0.0)))


def _a_cpu_by_default() -> AbstractContextManager[object]:
    """The platform that analyses a program is that of the default device; those of accelerators can not say what it costs.

    Raises:
        FailedPreconditionError: JAX was started with an accelerator alone.
    """
    if jax.default_backend() == "cpu":
        return nullcontext()
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError as error:
        raise FailedPreconditionError(
            f"Costs are those of the program for a CPU, and JAX was started with {jax.default_backend()} alone; set JAX_PLATFORMS to "
            "cuda,cpu (or whatever it is, and cpu), or do not set it."
        ) from error
