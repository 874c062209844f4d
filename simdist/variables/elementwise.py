"""Whether a function changes each number of some arrays by the numbers at the same place alone; read from its jaxpr.

Each value in the jaxpr has a label: it is made of the numbers of these arrays, place by place; or it is the same everywhere; or it is
another array, which is not known. Primitives that work place by place keep the first label, if all else that they take is the same
everywhere. Whatever else takes such a value (a sum, a shift, an index, a primitive that is not known) ends the search: the function needs
whole arrays. So does an array that differs from place to place by itself: a part of it is not known to belong to the same part.

A single number is the same everywhere: to get it from numbers of several places takes a primitive that ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from simdist.program.jaxprs import Atom, aval_in, equations_in, inner_jaxprs, widths_of_scan

__all__ = ["Label", "changes_place_by_place", "numbers_in"]


class Label(IntEnum):
    """What is known of a value."""

    SAME = 0
    OTHER = 1
    POSITIONS = 2


Labels = list[Label]

NAMES = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz complex conj
convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igammac imag integer_pow
is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or polygamma population_count pow real reduce_precision
regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square
stop_gradient sub tan tanh xor zeta
"""
PLACE_BY_PLACE = frozenset(NAMES.split())
# They keep every number in its place where the shape stays.
RESHAPING = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims"})


class _NeedsWholeArrays(Exception):
    """Numbers of several places are brought together."""


def changes_place_by_place(closed: ClosedJaxpr, arrays: Sequence[bool], results: Sequence[bool]) -> bool:
    """Whether a function changes each number of some arrays by the numbers at the same place alone.

    Args:
        closed: the function.
        arrays: of each argument, whether it is one of these arrays.
        results: of each result, whether it is what one of them becomes.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def found(function):
        ...     return changes_place_by_place(jax.make_jaxpr(function)(jnp.ones((4, 2))), [True], [True])
        >>> found(lambda x: x * jnp.tanh(x + 1)), found(lambda x: x - x[0]), found(lambda x: x * jnp.arange(2.0))
        (True, False, False)
    """
    jaxpr = closed.jaxpr
    given = [Label.POSITIONS if one and _has_places(var) else _unknown(var) for one, var in zip(arrays, jaxpr.invars, strict=True)]
    try:
        found = _labels_of_results(jaxpr, given, closed.consts)
    except _NeedsWholeArrays:
        return False
    refused = [Label.OTHER if one else Label.POSITIONS for one in results]
    return not any(label is no for label, no in zip(found, refused, strict=True))


def numbers_in(jaxpr: Jaxpr) -> list[tuple[str, ...]]:
    """The primitives of a jaxpr, each with the numbers that stand in it: equal for two shapes, if nothing follows from the shape.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> of = lambda function, size: numbers_in(jax.make_jaxpr(function)(jnp.ones(size)).jaxpr)
        >>> [of(function, 2) == of(function, 3) for function in (lambda x: x / 2, lambda x: x / x.size)]
        [True, False]
    """
    return [(eqn.primitive.name, *(str(a.val) for a in eqn.invars if isinstance(a, Literal))) for eqn in equations_in(jaxpr)]


def _labels_of_results(jaxpr: Jaxpr, labels: Sequence[Label], consts: Sequence[object]) -> Labels:
    known = {var: one if _has_places(var) else Label.SAME for var, one in zip(jaxpr.invars, labels, strict=True)}
    for var, const in zip(jaxpr.constvars, consts, strict=False):
        known[var] = _label_of_constant(var, const)

    def label(atom: Atom) -> Label:
        return Label.SAME if isinstance(atom, Literal) else known.get(atom, _unknown(atom))

    for eqn in jaxpr.eqns:
        found = _of_equation(eqn, [label(atom) for atom in eqn.invars])
        known.update({var: one if _has_places(var) else Label.SAME for var, one in zip(eqn.outvars, found, strict=True)})
    return [label(atom) for atom in jaxpr.outvars]


def _of_equation(eqn: JaxprEqn, given: Labels) -> Labels:
    special = SPECIAL.get(eqn.primitive.name)
    if special is not None:
        return special(eqn, given)
    inner = list(_closed(eqn))
    if len(inner) == 1 and len(inner[0][0].invars) == len(given) and len(inner[0][0].outvars) == len(eqn.outvars):
        return _labels_of_results(inner[0][0], given, inner[0][1])
    highest = max(given, default=Label.OTHER)
    if highest is not Label.POSITIONS:
        keeps = eqn.primitive.name in PLACE_BY_PLACE or eqn.primitive.name in RESHAPING
        return [highest if keeps else Label.OTHER] * len(eqn.outvars)
    if eqn.primitive.name in PLACE_BY_PLACE and Label.OTHER not in given:
        return [Label.POSITIONS] * len(eqn.outvars)
    if eqn.primitive.name in RESHAPING and aval_in(eqn.invars[0]).shape == aval_in(eqn.outvars[0]).shape:
        return [Label.POSITIONS]
    raise _NeedsWholeArrays


def _of_branches(eqn: JaxprEqn, given: Labels) -> Labels:
    branches: Sequence[ClosedJaxpr] = eqn.params["branches"]
    results = [_labels_of_results(branch.jaxpr, given[1:], branch.consts) for branch in branches]
    return [_either(of_each) for of_each in zip(*results, strict=True)]


def _of_scan(eqn: JaxprEqn, given: Labels) -> Labels:
    body: ClosedJaxpr = eqn.params["jaxpr"]
    first, carried = widths_of_scan(eqn)
    constants, carry, each = given[:first], given[first : first + carried], given[first + carried :]
    if Label.POSITIONS in each:
        raise _NeedsWholeArrays

    def once(carry: Labels) -> Labels:
        return _labels_of_results(body.jaxpr, [*constants, *carry, *each], body.consts)

    carry = _until_stable(lambda carry: once(carry)[:carried], carry)
    stacked = once(carry)[carried:]
    if Label.POSITIONS in stacked:
        raise _NeedsWholeArrays
    return [*carry, *stacked]


def _of_while(eqn: JaxprEqn, given: Labels) -> Labels:
    condition: ClosedJaxpr = eqn.params["cond_jaxpr"]
    body: ClosedJaxpr = eqn.params["body_jaxpr"]
    for_condition, for_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    asked, constants, carry = given[:for_condition], given[for_condition : for_condition + for_body], given[for_condition + for_body :]

    def once(carry: Labels) -> Labels:
        _labels_of_results(condition.jaxpr, [*asked, *carry], condition.consts)
        return _labels_of_results(body.jaxpr, [*constants, *carry], body.consts)

    return _until_stable(once, carry)


def _as_they_are(eqn: JaxprEqn, given: Labels) -> Labels:
    return given


def _until_stable(once: Callable[[Labels], Labels], labels: Labels) -> Labels:
    while (after := list(map(_either, zip(labels, once(labels), strict=True)))) != labels:
        labels = after
    return labels


def _either(labels: Sequence[Label]) -> Label:
    """What is known of a value that has one of these labels."""
    if Label.POSITIONS in labels and Label.OTHER in labels:
        raise _NeedsWholeArrays
    return max(labels)


def _closed(eqn: JaxprEqn) -> list[tuple[Jaxpr, Sequence[object]]]:
    """The jaxprs in an equation, with their constants."""
    values = [item for value in eqn.params.values() for item in (value if isinstance(value, (tuple, list)) else (value,))]
    consts = [value.consts if isinstance(value, ClosedJaxpr) else () for value in values if isinstance(value, (ClosedJaxpr, Jaxpr))]
    return list(zip(inner_jaxprs(eqn), consts, strict=True))


def _label_of_constant(var: Var, const: object) -> Label:
    if not _has_places(var):
        return Label.SAME
    array = np.asarray(const)
    return Label.SAME if array.size and (array == array.flat[0]).all() else Label.OTHER


def _unknown(var: Var) -> Label:
    return Label.OTHER if _has_places(var) else Label.SAME


def _has_places(var: Var) -> bool:
    return isinstance(var.aval, ShapedArray) and bool(var.aval.shape)


SPECIAL: dict[str, Callable[[JaxprEqn, Labels], Labels]] = {
    "cond": _of_branches,
    "scan": _of_scan,
    "while": _of_while,
    "optimization_barrier": _as_they_are,
}
