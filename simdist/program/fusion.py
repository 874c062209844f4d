"""Fusion that changes no bit: which kernels XLA may put into one loop, and how to keep products apart from additions there.

Without fusion each operation goes over its arrays once and is compiled alone; the rule of an optimizer takes several times as
long so. With fusion, XLA may change last bits in two ways: a reduction that is fused with what feeds it adds in another order,
and a product that is fused with an addition is not rounded (one instruction, fused multiply-add). So two kinds of kernels are
fused: what `only_adds`, and what `fuses_exactly`, element by element, with operations whose results IEEE 754 fixes. Of the latter, a
product that is added goes through a `guarded` bit operation first, which leaves it as it is, though the compiler cannot know that: so it
has to round it. Of a NaN, the sign may differ: no standard fixes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from simdist.program.jaxprs import Atom, aval_in, called, equations_in, variables_in

__all__ = ["NOTHING", "fuses_exactly", "guarded", "only_adds"]

NOTHING = np.uint32(0)
"""What `guarded` functions take first. It is an argument because XLA looks through every constant."""

# What moves numbers, and computes none.
MOVES = frozenset(
    (
        *("broadcast_in_dim", "concatenate", "copy", "dynamic_slice", "dynamic_update_slice", "gather", "jit", "pad"),
        *("reshape", "rev", "scan", "select_n", "slice", "squeeze", "transpose", "while"),
    )
)
WHOLE = frozenset(("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
EXACT = frozenset(("float32", "float64"))
# One element of the result comes from one of each input, and IEEE 754 (section 5.4) says which number it is.
SUMS = frozenset(("add", "add_any", "sub"))
PRODUCTS = frozenset(("div", "integer_pow", "mul", "square"))  # XLA makes products of some divisions
PASSED_ON = frozenset(
    ("abs", "broadcast_in_dim", "clamp", "convert_element_type", "copy", "max", "min", "neg", "reshape", "select_n", "squeeze")
)
OTHERS = frozenset(("and", "ceil", "eq", "floor", "ge", "gt", "is_finite", "jit", "le", "lt", "ne", "not", "or", "sign", "sqrt", "xor"))
ROUNDED = SUMS | PRODUCTS | PASSED_ON | OTHERS
# Of one number, they are the same call of the same function wherever they stand.
OF_ONE_NUMBER = frozenset(("cos", "exp", "exp2", "log", "log1p", "pow", "rsqrt", "sin", "tanh"))


def only_adds(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr adds up numbers of single or double precision in an order that it fixes, moves them about, and does nothing else.

    Its bits do not depend on fusion: XLA keeps the order of additions, and there is no product that an addition could take in.

    Example:
        >>> [only_adds(jax.make_jaxpr(f)(1.0).jaxpr) for f in (lambda x: x + 1, lambda x: 2 * x + 1)]
        [True, False]
    """
    # Narrower numbers are added in single precision, and fusion may leave out a rounding between two additions.
    return all(
        aval.dtype.name in WHOLE or eqn.primitive.name in MOVES or (eqn.primitive.name == "add" and aval.dtype.name in EXACT)
        for eqn in equations_in(jaxpr)
        for aval in _results(eqn)
    )


def fuses_exactly(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr has the same bits with fusion once its products are `guarded`: it computes element by element.

    Example:
        >>> import jax.numpy as jnp
        >>> rules = lambda v, g: v - 0.1 * g, lambda v, g: v - g / jnp.linalg.norm(g)
        >>> [fuses_exactly(jax.make_jaxpr(rule)(jnp.ones(3), jnp.ones(3)).jaxpr) for rule in rules]
        [True, False]
    """
    return all(
        aval.dtype.name in EXACT | WHOLE and (eqn.primitive.name in ROUNDED or (eqn.primitive.name in OF_ONE_NUMBER and not aval.shape))
        for eqn in equations_in(jaxpr)
        for aval in _results(eqn)
    )


def guarded(closed: ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """The function of a jaxpr that `fuses_exactly`, in which no addition takes in a product.

    Only what an addition takes is guarded: what XLA simplifies among products is simplified as it is without fusion.

    Returns:
        A function of `NOTHING` and of what the jaxpr takes.
    """

    def function(nothing: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        results = _evaluated(closed, [Computed(array, False) for array in arrays], nothing)
        return [result.array for result in results]

    return function


class Computed(NamedTuple):
    """An array, and whether it may be a product that is not rounded yet."""

    array: jax.Array
    is_product: bool


def _evaluated(closed: ClosedJaxpr, given: Sequence[Computed], nothing: jax.Array) -> list[Computed]:
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, (Computed(const, False) for const in closed.consts), strict=True))
    values.update(zip(jaxpr.invars, given, strict=True))
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jit":
            results = _evaluated(eqn.params["jaxpr"], [_value(atom, values) for atom in eqn.invars], nothing)
        else:
            results = _result(jaxpr, eqn, values, nothing)
        values.update(zip(eqn.outvars, results, strict=True))
    return [_value(atom, values) for atom in jaxpr.outvars]


def _result(jaxpr: Jaxpr, eqn: JaxprEqn, values: Mapping[Var, Computed], nothing: jax.Array) -> list[Computed]:
    name, read = eqn.primitive.name, list(dict.fromkeys(variables_in(eqn.invars)))
    taken = [values[var] for var in read]
    arrays = [_rounded(one.array, nothing) if name in SUMS and one.is_product else one.array for one in taken]
    is_product = name in PRODUCTS | OF_ONE_NUMBER or (name in PASSED_ON and any(one.is_product for one in taken))
    return [Computed(array, is_product) for array in called(jaxpr, eqn, read, arrays)]


def _value(atom: Atom, values: Mapping[Var, Computed]) -> Computed:
    return Computed(jax.numpy.asarray(atom.val, aval_in(atom).dtype), False) if isinstance(atom, Literal) else values[atom]


def _rounded(product: jax.Array, nothing: jax.Array) -> jax.Array:
    """The product, bit by bit, after an operation that no addition can be contracted over."""
    if product.dtype.name not in EXACT:
        return product
    bits = np.dtype(f"uint{8 * product.dtype.itemsize}")
    whole = lax.bitcast_convert_type(product, bits)
    return lax.bitcast_convert_type(whole ^ nothing.astype(bits), product.dtype)


def _results(eqn: JaxprEqn) -> list[ShapedArray]:
    return [var.aval for var in eqn.outvars if isinstance(var.aval, ShapedArray)]
