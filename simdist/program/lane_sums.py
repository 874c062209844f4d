"""Sums over the lanes of a stack, taken where the stack would be made.

The gradients that replicas compute in one batch are a stack [lanes, ...], as large as all of them together, and most steps only add them
up. The product of two matrices that makes a lane for each replica can add up its lanes itself: they become one more axis over which it
sums. So neither the stack nor its sum takes memory or time.

Numbers: class E2. The same terms are added, in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core
from jax.extend.core import JaxprEqn, Var

from simdist.caches import shared
from simdist.program.jaxprs import Atom, called, substituted, variables_in
from simdist.program.kernels import KEPT_KERNELS, Kernel, kernel_of

__all__ = ["adds_lanes", "lane_sum_scale", "with_lane_sums"]

_scales: WeakKeyDictionary[Kernel, float] = WeakKeyDictionary()
_summing = shared("kernels that add up their lanes", KEPT_KERNELS)


def adds_lanes(kernel: Kernel, scale: float) -> None:
    """Note that a kernel does nothing but to add up the lanes of each input [lanes, ...], times a factor."""
    _scales[kernel] = scale


def lane_sum_scale(kernel: Kernel) -> float | None:
    """The factor of a kernel of which `adds_lanes` was noted; None for any other."""
    return _scales.get(kernel)


def with_lane_sums(kernel: Kernel, scales: Sequence[float | None]) -> Kernel:
    """The kernel with sums over lanes among its outputs.

    Args:
        kernel: gives stacks [lanes, ...].
        scales: for each output the factor on the sum of its lanes, which takes its place; None: it stays a stack.

    Example:
        >>> from simdist.program.values import Aval
        >>> products = kernel_of("products", lambda x, y: [jax.vmap(jnp.outer)(x, y), x], [Aval((2, 3), "float32")] * 2)
        >>> [aval.shape for aval in with_lane_sums(products, (1.0, None)).out_avals]
        [(3, 3), (2, 3)]
    """

    def make() -> Kernel:
        closed = substituted(kernel.closed, lambda eqn: eqn.params["jaxpr"] if eqn.primitive.name == "jit" else None)
        return kernel_of(f"{kernel.name}, added up", lambda *arrays: _Values(closed, arrays).outputs(scales), kernel.in_avals)

    return _summing.get((kernel, tuple(scales)), make)


class _Values:
    """What a jaxpr computes from some arrays, and the sums of it over an axis."""

    def __init__(self, closed: jex_core.ClosedJaxpr, arrays: Sequence[jax.Array]) -> None:
        self.outvars = closed.jaxpr.outvars
        self.values: dict[Var, jax.Array] = {}
        self.values.update(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *arrays), strict=True))
        self.made_by: dict[Var, JaxprEqn] = {}
        for eqn in closed.jaxpr.eqns:
            given = list(dict.fromkeys(variables_in(eqn.invars)))
            self.values.update(zip(eqn.outvars, called(closed.jaxpr, eqn, given, [self.values[var] for var in given]), strict=True))
            self.made_by.update(dict.fromkeys(eqn.outvars, eqn))

    def outputs(self, scales: Sequence[float | None]) -> list[jax.Array]:
        """The outputs, some of them added up."""
        return [self._value(atom) if scale is None else self._scaled(atom, scale) for atom, scale in zip(self.outvars, scales, strict=True)]

    def _scaled(self, atom: Atom, scale: float) -> jax.Array:
        total = self.total(atom, 0)
        return total if scale == 1 else total * jnp.asarray(scale, total.dtype)

    def _value(self, atom: Atom) -> jax.Array:
        return jnp.asarray(atom.val) if isinstance(atom, jex_core.Literal) else self.values[atom]

    def total(self, atom: Atom, axis: int) -> jax.Array:
        """The sum of a value over one of its axes."""
        eqn = self.made_by.get(atom) if isinstance(atom, Var) else None
        rule = None if eqn is None else _RULES.get(eqn.primitive.name)
        total = None if eqn is None or rule is None else rule(self, eqn, axis)
        if total is None:
            value = self._value(atom)
            total = jnp.sum(value, axis, dtype=value.dtype)
        return total

    def product(self, eqn: JaxprEqn, axis: int) -> jax.Array | None:
        """Of products of matrices, the one that sums over the lanes, too."""
        (left, right), (left_lanes, right_lanes) = eqn.params["dimension_numbers"]
        if axis >= len(left_lanes):
            return None
        kept = [number for number in range(len(left_lanes)) if number != axis]
        # The lanes first: they come before the rows that are summed in memory, and nothing has to be moved.
        summed = (left_lanes[axis], *left), (right_lanes[axis], *right)
        lanes = tuple(left_lanes[number] for number in kept), tuple(right_lanes[number] for number in kept)
        first, second = map(self._value, eqn.invars)
        return jax.lax.dot_general(
            first, second, (summed, lanes), precision=eqn.params["precision"], preferred_element_type=eqn.params["preferred_element_type"]
        )

    def transposed(self, eqn: JaxprEqn, axis: int) -> jax.Array:
        """Of a transposed value."""
        permutation = eqn.params["permutation"]
        gone = permutation[axis]
        left = [number - (number > gone) for number in permutation if number != gone]
        return jnp.transpose(self.total(eqn.invars[0], gone), left)

    def added(self, eqn: JaxprEqn, axis: int) -> jax.Array:
        """Of a sum of two values, as the gradient of what is used twice."""
        first, second = eqn.invars
        return self.total(first, axis) + self.total(second, axis)


_RULES: dict[str, Callable[[_Values, JaxprEqn, int], jax.Array | None]] = {
    "dot_general": _Values.product,
    "transpose": _Values.transposed,
    "add_any": _Values.added,
}
