"""What a jaxpr gives where only some of what it takes is known: which results are numbers, and which are inputs that are left as they are.

This is algebra, and not a trial: 0 times a number is 0, and a number plus 0 is that number, whatever the others are; of a choice that is
not known, all branches have to agree. What cannot be said so is None. Numbers that are not known are taken to be finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from simdist.program.arrays import HostArray
from simdist.program.jaxprs import Atom, aval_in, called

__all__ = ["Known", "UnchangedInput", "known_results"]


@dataclass(frozen=True)
class UnchangedInput:
    """An input as it is, perhaps in a wider dtype.

    Attributes:
        number: of the input.
        dtype: its own.
    """

    number: int
    dtype: str


Known: TypeAlias = HostArray | jax.Array | UnchangedInput | None
"""Numbers, an input, or None: it is not known."""


def known_results(closed: ClosedJaxpr, numbers: Sequence[HostArray | jax.Array | None]) -> list[Known]:
    """What is known of the results of a jaxpr.

    Args:
        closed: the jaxpr.
        numbers: its inputs; None of those that may be anything.

    Example:
        >>> import jax, numpy as np
        >>> closed = jax.make_jaxpr(lambda value, rate, change: (value - rate * change, value * rate, change + 1))(1.0, 0.1, 0.0)
        >>> known_results(closed, [None, None, np.float32(0)])
        [UnchangedInput(number=0, dtype='float32'), None, Array(1., dtype=float32)]
    """
    pairs = enumerate(zip(closed.jaxpr.invars, numbers, strict=True))
    given = [UnchangedInput(number, aval_in(var).dtype) if value is None else value for number, (var, value) in pairs]
    return _results(closed.jaxpr, closed.consts, given)


def _results(jaxpr: Jaxpr, consts: Sequence[Known], given: Sequence[Known]) -> list[Known]:
    known: dict[Var, Known] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *given], strict=True))

    def of(atom: Atom) -> Known:
        return np.asarray(atom.val, aval_in(atom).dtype) if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _of_equation(jaxpr, eqn, list(map(of, eqn.invars))), strict=True))
    return list(map(of, jaxpr.outvars))


def _of_equation(jaxpr: Jaxpr, eqn: JaxprEqn, given: list[Known]) -> Sequence[Known]:
    unknown: list[Known] = [None] * len(eqn.outvars)
    if eqn.effects:
        return unknown
    if eqn.primitive.name == "cond":
        return _of_branches(eqn.params["branches"], given[0], given[1:])
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    if isinstance(inner, ClosedJaxpr) and len(inner.jaxpr.invars) == len(given) and eqn.primitive.name not in LOOPS:
        return _results(inner.jaxpr, inner.consts, given)
    if all(_is_number(value) for value in given):
        values = {atom: jnp.asarray(value) for atom, value in zip(eqn.invars, given, strict=True) if not isinstance(atom, Literal)}
        return called(jaxpr, eqn, list(values), list(values.values()))
    rule = RULES.get(eqn.primitive.name)
    return unknown if rule is None else [rule(eqn, given)]


def _of_branches(branches: Sequence[ClosedJaxpr], choice: Known, given: Sequence[Known]) -> Sequence[Known]:
    if _is_number(choice):
        branches = [branches[min(max(int(choice), 0), len(branches) - 1)]]
    results = [_results(branch.jaxpr, branch.consts, given) for branch in branches]
    return [_common(of_each) for of_each in zip(*results, strict=True)]


def _common(found: Sequence[Known]) -> Known:
    """What all of several possible results are."""
    first = found[0] if found else None
    if _is_number(first):
        return first if all(_is_number(other) and np.array_equal(other, first) for other in found[1:]) else None
    return first if all(isinstance(other, UnchangedInput) and other == first for other in found[1:]) else None


def _is_number(value: Known) -> TypeGuard[HostArray | jax.Array]:
    return value is not None and not isinstance(value, UnchangedInput)


def _is_zero(value: Known) -> bool:
    return _is_number(value) and not np.any(np.asarray(value))


def _as_it_is(eqn: JaxprEqn, given: Sequence[Known]) -> Known:
    """The first operand, where the result has its shape."""
    before, after = aval_in(eqn.invars[0]), aval_in(eqn.outvars[0])
    return given[0] if before == after else None


def _zeros(eqn: JaxprEqn) -> HostArray:
    aval = aval_in(eqn.outvars[0])
    return np.zeros(aval.shape, aval.dtype)


def _sum(eqn: JaxprEqn, given: Sequence[Known]) -> Known:
    if _is_zero(given[1]):
        return _as_it_is(eqn, given)
    return given[1] if _is_zero(given[0]) and aval_in(eqn.invars[1]) == aval_in(eqn.outvars[0]) else None


def _difference(eqn: JaxprEqn, given: Sequence[Known]) -> Known:
    return _as_it_is(eqn, given) if _is_zero(given[1]) else None


def _product(eqn: JaxprEqn, given: Sequence[Known]) -> Known:
    return _zeros(eqn) if _is_zero(given[0]) or _is_zero(given[1]) else None


def _quotient(eqn: JaxprEqn, given: Sequence[Known]) -> Known:
    return _zeros(eqn) if _is_zero(given[0]) else None


def _chosen(eqn: JaxprEqn, given: Sequence[Known]) -> Known:
    choice, cases = given[0], given[1:]
    chosen = set(np.asarray(choice, np.int32).flat) if _is_number(choice) else set(range(len(cases)))
    return _common([case for number, case in enumerate(cases) if number in chosen])


def _converted(eqn: JaxprEqn, given: Sequence[Known]) -> Known:
    """An input in a dtype that holds all of its numbers."""
    value, new = given[0], jnp.dtype(eqn.params["new_dtype"])
    if not isinstance(value, UnchangedInput) or jnp.dtype(value.dtype) == new:
        return value
    floats = jnp.issubdtype(value.dtype, jnp.floating) and jnp.issubdtype(new, jnp.floating)
    return value if floats and jnp.promote_types(value.dtype, new) == new else None


LOOPS = ("scan", "while")
RULES: dict[str, Callable[[JaxprEqn, Sequence[Known]], Known]] = {
    "add": _sum,
    "add_any": _sum,
    "sub": _difference,
    "mul": _product,
    "div": _quotient,
    "select_n": _chosen,
    "convert_element_type": _converted,
    "copy": _as_it_is,
    "copy_p": _as_it_is,
    "reshape": _as_it_is,
    "squeeze": _as_it_is,
    "broadcast_in_dim": _as_it_is,
}
