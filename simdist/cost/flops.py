"""What a kernel costs: floating-point operations and bytes, from the program that XLA would compile.

Flops are those of XLA's own analysis of the lowered program, always for the CPU platform, so that a schedule does not
depend on the machine that simulates it; bodies of loops count as often as they run, and of a ``cond`` the dearest branch
counts, because which one is taken depends on values. Bytes: `simdist.cost.moved`.

Not modelled: caches, the precise fusion that a compiler would choose, occupancy.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax.extend import core as jex_core
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.stages import Wrapped

from simdist.caches import of_each
from simdist.cost.loops import loops
from simdist.cost.moved import bytes_moved
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
    # The kernel's own compiled function: JAX keeps what it lowers, and need not lower it again for the first call.
    once = _flops_once(kernel.jitted, kernel.closed)
    return Cost(once + _flops_of_repetitions(kernel.name, kernel.closed.jaxpr), bytes_moved(kernel.name, kernel.closed))


def _flops_of_repetitions(name: str, jaxpr: Jaxpr) -> float:
    """What the turns of loops add: XLA counts a loop's body once, and of a cond the dearest branch."""
    total = 0.0
    for loop in loops(name, jaxpr):
        once = _flops_once(jax.jit(jex_core.jaxpr_as_fun(loop.body)), loop.body)
        total += loop.trips * (once + _flops_of_repetitions(name, loop.body.jaxpr)) - once
    return total


def _flops_once(jitted: Wrapped, closed: ClosedJaxpr) -> float:
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    analysis = jitted.trace(*specs).lower(lowering_platforms=("cpu",)).cost_analysis() or {}
    return max(0.0, float(analysis.get("flops", 0.0))) + max(0.0, float(analysis.get("transcendentals", 0.0)))
