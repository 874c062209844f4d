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
from simdist.program.jaxprs import Atom, aval_in, called, substituted, variables_in
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
        return kernel_of(f"{kernel.name}, added up", lambda *arrays: _Values(closed, arrays, scales).outputs(), kernel.in_avals)

    return _summing.get((kernel, tuple(scales)), make)


class _Values:
    """What a jaxpr computes from some arrays, and the sums of it over an axis."""

    def __init__(self, closed: jex_core.ClosedJaxpr, arrays: Sequence[jax.Array], scales: Sequence[float | None]) -> None:
        self.outputs_and_scales = list(zip(closed.jaxpr.outvars, scales, strict=True))
        self.needed = _needed_as_they_are(closed.jaxpr, scales)
        self.values: dict[Var, jax.Array] = {}
        self.values.update(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *arrays), strict=True))
        self.made_by: dict[Var, JaxprEqn] = {}
        for eqn in closed.jaxpr.eqns:
            given = list(dict.fromkeys(variables_in(eqn.invars)))
            self.values.update(zip(eqn.outvars, called(closed.jaxpr, eqn, given, [self.values[var] for var in given]), strict=True))
            self.made_by.update(dict.fromkeys(eqn.outvars, eqn))

    def outputs(self) -> list[jax.Array]:
        """The outputs, some of them added up."""
        return [self._value(atom) if scale is None else self._scaled(atom, scale) for atom, scale in self.outputs_and_scales]

    def _scaled(self, atom: Atom, scale: float) -> jax.Array:
        total = self.total(atom, 0)
        return total if scale == 1 else total * jnp.asarray(scale, total.dtype)

    def _value(self, atom: Atom) -> jax.Array:
        return jnp.asarray(atom.val) if isinstance(atom, jex_core.Literal) else self.values[atom]

    def _made_for_sums(self, atom: Atom) -> JaxprEqn | None:
        """What makes a value that only sums over lanes need."""
        return self.made_by.get(atom) if isinstance(atom, Var) and atom not in self.needed else None

    def total(self, atom: Atom, axis: int) -> jax.Array:
        """The sum of a value over one of its axes."""
        eqn = self._made_for_sums(atom)
        rule = None if eqn is None else _RULES.get(eqn.primitive.name)
        total = None if eqn is None or rule is None else rule(self, eqn, axis)
        if total is None:
            value = self._value(atom)
            total = jnp.sum(value, axis, dtype=value.dtype)
        return total

    def product(self, eqn: JaxprEqn, axis: int) -> jax.Array | None:
        """Of products of matrices, the one that sums over the lanes, too."""
        return self._product(eqn, axis, is_swapped=False)

    def _product(self, eqn: JaxprEqn, axis: int, is_swapped: bool) -> jax.Array | None:
        (left, right), (left_lanes, right_lanes) = eqn.params["dimension_numbers"]
        if axis >= len(left_lanes):
            return None
        kept = [number for number in range(len(left_lanes)) if number != axis]
        # The lanes first: they come before the rows that are summed in memory, and nothing has to be moved.
        summed = (left_lanes[axis], *left), (right_lanes[axis], *right)
        lanes = tuple(left_lanes[number] for number in kept), tuple(right_lanes[number] for number in kept)
        (first, second), precision = map(self._value, eqn.invars), eqn.params["precision"]
        if is_swapped:
            first, second, summed, lanes = second, first, (summed[1], summed[0]), (lanes[1], lanes[0])
            precision = precision[::-1] if isinstance(precision, tuple) else precision
        dtype = eqn.params["preferred_element_type"]
        return jax.lax.dot_general(first, second, (summed, lanes), precision=precision, preferred_element_type=dtype)

    def transposed(self, eqn: JaxprEqn, axis: int) -> jax.Array:
        """Of a transposed value; of a transposed product, the product of the other two."""
        permutation = eqn.params["permutation"]
        gone = permutation[axis]
        left = [number - (number > gone) for number in permutation if number != gone]
        product = self._made_for_sums(eqn.invars[0])
        if product is not None and left == [1, 0] and _is_of_two_matrices(product):
            # XLA takes half as long again for a product that it has to transpose.
            total = self._product(product, gone, is_swapped=True)
            if total is not None:
                return total
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


def _is_of_two_matrices(eqn: JaxprEqn) -> bool:
    """Whether it is one product in each lane, whose rows are those of one matrix and whose columns those of the other."""
    if eqn.primitive.name != "dot_general":
        return False
    summed, lanes = eqn.params["dimension_numbers"]
    kept = [len(aval_in(atom).shape) - len(summed[side]) - len(lanes[side]) for side, atom in enumerate(eqn.invars)]
    return kept == [1, 1] and len(lanes[0]) == 1


def _needed_as_they_are(jaxpr: jex_core.Jaxpr, scales: Sequence[float | None]) -> set[Var]:
    """The values that something else needs than sums over lanes: their stacks are made anyway, and a product that sums is a second one."""
    needed = {atom for atom, scale in zip(jaxpr.outvars, scales, strict=True) if scale is None and isinstance(atom, Var)}
    live = needed | {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or live.intersection(eqn.outvars):
            given = variables_in(eqn.invars)
            live.update(given)
            passes_on = eqn.primitive.name in ("transpose", "add_any") and not needed.intersection(eqn.outvars)
            needed.update(() if passes_on else given)
    return needed
