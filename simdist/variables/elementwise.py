"""Whether a function changes each number of some arrays by the numbers at the same place alone; read from its jaxpr.

Each value in the jaxpr has a label: it is made of the numbers of these arrays, place by place; or it is the same everywhere; or it is
another array, which is not known. Primitives that work place by place keep the first label, if all else that they take is the same
everywhere. Whatever else takes such a value (a sum, a shift, an index, a primitive that is not known) ends the search: the function needs
whole arrays. So does an array that differs from place to place by itself: a part of it is not known to belong to the same part.

A single number is the same everywhere: to get it from numbers of several places takes a primitive that ends the search. It may still
follow from how many places there are, as a sum of ones does; `numbers_in` tells that, for two shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from simdist.program.dataflow import DataFlow
from simdist.program.jaxprs import Atom, aval_in, equations_in, inner_jaxprs

__all__ = ["Label", "changes_place_by_place", "numbers_in"]


class Label(IntEnum):
    """What is known of a value."""

    SAME = 0
    OTHER = 1
    POSITIONS = 2


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
BARRIER = "optimization_barrier"  # its results are what it takes


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
        found = _PlaceByPlace().of_results(jaxpr, given, closed.consts)
    except _NeedsWholeArrays:
        return False
    refused = [Label.OTHER if one else Label.POSITIONS for one in results]
    return not any(label is no for label, no in zip(found, refused, strict=True))


def numbers_in(jaxpr: Jaxpr) -> list[tuple[str, ...]]:
    """The primitives of a jaxpr, each with the numbers that stand in it, or follow from shapes.

    They are equal for two shapes, if a function that changes each number by itself does the same in both.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> of = lambda function, size: numbers_in(jax.make_jaxpr(function)(jnp.ones(size)).jaxpr)
        >>> functions = [lambda x: x / 2, lambda x: x / x.size, lambda x: x / jnp.ones_like(x).sum()]
        >>> [of(function, 2) == of(function, 3) for function in functions]
        [True, False, False]
    """
    return [(eqn.primitive.name, *_numbers_of(eqn)) for eqn in equations_in(jaxpr)]


def _numbers_of(eqn: JaxprEqn) -> Iterator[str]:
    yield from (str(atom.val) for atom in eqn.invars if isinstance(atom, Literal))
    if "length" in eqn.params:  # of a scan
        yield f"{eqn.params['length']} turns"
    if eqn.primitive.name not in {*PLACE_BY_PLACE, *RESHAPING, BARRIER} and not any(inner_jaxprs(eqn)):
        yield from (str(atom.aval) for atom in (*eqn.invars, *eqn.outvars))


class _PlaceByPlace(DataFlow[Label]):
    def of_constant(self, atom: Atom, value: object) -> Label:
        if not _has_places(atom):
            return Label.SAME
        if value is None:
            return Label.OTHER
        array = np.asarray(value)
        return Label.SAME if array.size and (array == array.flat[0]).all() else Label.OTHER

    def of_equation(self, eqn: JaxprEqn, given: Sequence[Label]) -> list[Label]:
        name = eqn.primitive.name
        if name == BARRIER:
            return list(given)
        label = _of_primitive(eqn, name, max(given, default=Label.OTHER), Label.OTHER in given)
        return [label if _has_places(var) else Label.SAME for var in eqn.outvars]

    def joined(self, one: Label, other: Label) -> Label:
        if {one, other} == {Label.POSITIONS, Label.OTHER}:
            raise _NeedsWholeArrays
        return max(one, other)

    def of_turn(self, label: Label, var: Var) -> Label:
        if label is Label.POSITIONS:
            raise _NeedsWholeArrays
        return label if _has_places(var) else Label.SAME

    def of_turns(self, label: Label, var: Var) -> Label:
        if label is Label.POSITIONS:
            raise _NeedsWholeArrays
        return Label.OTHER  # each turn may have added another number


def _of_primitive(eqn: JaxprEqn, name: str, highest: Label, has_other: bool) -> Label:
    if highest is not Label.POSITIONS:
        return highest if name in PLACE_BY_PLACE or name in RESHAPING else Label.OTHER
    if name in PLACE_BY_PLACE and not has_other:
        return Label.POSITIONS
    if name in RESHAPING and aval_in(eqn.invars[0]).shape == aval_in(eqn.outvars[0]).shape:
        return Label.POSITIONS
    raise _NeedsWholeArrays


def _unknown(var: Var) -> Label:
    return Label.OTHER if _has_places(var) else Label.SAME


def _has_places(atom: Atom) -> bool:
    return isinstance(atom.aval, ShapedArray) and bool(atom.aval.shape)
