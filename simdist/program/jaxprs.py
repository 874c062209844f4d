"""Jaxprs inside jaxprs: the bodies of loops, the branches of a cond, compiled functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from simdist.program.values import Aval

__all__ = [
    "Atom",
    "aval_in",
    "called",
    "constants_in",
    "equations_in",
    "frozen",
    "inner_jaxprs",
    "needed_for",
    "num_elements",
    "primitives_in",
    "size_bytes",
    "substituted",
    "variables_in",
    "widths_of_scan",
]

Atom = Var | Literal
"""What an equation takes: the result of another one, an input, or a number that stands in the jaxpr."""


def inner_jaxprs(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of an equation; of a closed one, what is in it.

    Example:
        >>> import jax
        >>> outer = jax.make_jaxpr(jax.jit(lambda x: x * 2 + 1))(1.0)
        >>> [[eqn.primitive.name for eqn in inner.eqns] for inner in inner_jaxprs(outer.jaxpr.eqns[0])]
        [['mul', 'add']]
    """
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item


def primitives_in(jaxpr: Jaxpr) -> Iterator[str]:
    """The names of the primitives of a jaxpr and of those inside it.

    Example:
        >>> import jax
        >>> sorted(primitives_in(jax.make_jaxpr(jax.jit(lambda x: x * 2 + 1))(1.0).jaxpr))
        ['add', 'jit', 'mul']
    """
    return (eqn.primitive.name for eqn in equations_in(jaxpr))


def equations_in(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """The equations of a jaxpr and of those inside it.

    Example:
        >>> import jax
        >>> [len(eqn.invars) for eqn in equations_in(jax.make_jaxpr(jax.jit(lambda x: x * 2 + 1))(1.0).jaxpr)]
        [1, 2, 2]
    """
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from equations_in(inner)


def needed_for(jaxpr: Jaxpr, outvars: Sequence[Atom]) -> tuple[list[JaxprEqn], set[Var]]:
    """The equations of a jaxpr that some of its results need, and all variables that these equations take or that are results themselves.

    Example:
        >>> import jax
        >>> jaxpr = jax.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 1.0).jaxpr
        >>> eqns, needed = needed_for(jaxpr, jaxpr.outvars[:1])
        >>> [eqn.primitive.name for eqn in eqns], [var in needed for var in jaxpr.invars]
        (['add'], [True, False])
    """
    needed, eqns = set(variables_in(outvars)), list[JaxprEqn]()
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not needed.isdisjoint(eqn.outvars):
            eqns.append(eqn)
            needed.update(variables_in(eqn.invars))
    return eqns[::-1], needed


def constants_in(closed: ClosedJaxpr) -> Iterator[object]:
    """The constants of a jaxpr and of those inside it: arrays that its text does not show.

    Example:
        >>> import jax, numpy as np
        >>> inner, outer = np.array([2.0, 3.0]), np.array([5.0, 7.0])
        >>> scaled = jax.jit(lambda x: x * inner)
        >>> [const.tolist() for const in constants_in(jax.make_jaxpr(lambda x: scaled(x) + outer)(outer))]
        [[5.0, 7.0], [2.0, 3.0]]
    """
    yield from closed.consts
    for eqn in equations_in(closed.jaxpr):
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(item, ClosedJaxpr):
                    yield from item.consts


def frozen(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same jaxpr with numbers of its own: it stays what it was when it was traced.

    A number of a jaxpr is the very array of no dimensions that the traced function has used. It would follow later changes of that array
    wherever the jaxpr is compiled once more, under a text that names the number of before.

    Its constants are no longer the objects of JAX: of an array of 64 bits JAX makes one of 32, and takes that one for the array, whatever
    the array holds by then, for as long as anything has it. A step that is kept would give its old values to all later steps.

    Example:
        >>> import jax, numpy as np
        >>> rate = np.array(0.5, np.float32)
        >>> closed = frozen(jax.make_jaxpr(lambda x: x * rate)(np.float32(1)))
        >>> rate *= 0.5
        >>> float(closed.jaxpr.eqns[0].invars[1].val)
        0.5
    """
    consts = [np.asarray(const) if isinstance(const, np.ndarray) else const for const in closed.consts]
    return ClosedJaxpr(_frozen(closed.jaxpr), consts)


def _frozen(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [
        eqn.replace(invars=list(map(_frozen_atom, eqn.invars)), params={key: _frozen_parameter(value) for key, value in eqn.params.items()})
        for eqn in jaxpr.eqns
    ]
    return jaxpr.replace(eqns=eqns, outvars=list(map(_frozen_atom, jaxpr.outvars)))


def _frozen_atom(atom: Atom) -> Atom:
    return Literal(atom.val.copy(), atom.aval) if isinstance(atom, Literal) and isinstance(atom.val, np.ndarray) else atom


def _frozen_parameter(value: object) -> object:
    if isinstance(value, ClosedJaxpr):
        return ClosedJaxpr(_frozen(value.jaxpr), [const.copy() if isinstance(const, np.ndarray) else const for const in value.consts])
    if isinstance(value, Jaxpr):
        return _frozen(value)
    return _each(value, _frozen_parameter)


def _each(value: object, changed: Callable[[object], object]) -> object:
    """A parameter of an equation; where it is a tuple that has jaxprs, the same kind of tuple with a change of each item."""
    items = cast(tuple[object, ...], value) if isinstance(value, tuple) else ()
    if not any(isinstance(item, (ClosedJaxpr, Jaxpr)) for item in items):
        return value
    made = tuple(map(changed, items))
    named = cast("Callable[..., object]", type(value))
    return named(*made) if hasattr(value, "_fields") else made  # JAX keeps those of a linear solve under their names


def substituted(closed: ClosedJaxpr, replacement: Callable[[JaxprEqn], ClosedJaxpr | None]) -> ClosedJaxpr:
    """The jaxpr with other equations in the place of some, also in the jaxprs inside it.

    Args:
        closed: the jaxpr; if nothing in it is replaced, it is returned as it is.
        replacement: of an equation, a jaxpr that takes and gives the same, in which equations are replaced, too; None: it stays.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> twice = jax.make_jaxpr(lambda x: x + x)(jnp.ones(2))
        >>> closed = jax.make_jaxpr(jax.jit(lambda x: -x * 3))(jnp.ones(2))
        >>> found = substituted(closed, lambda eqn: twice if eqn.primitive.name == "neg" else None)
        >>> [eqn.primitive.name for eqn in equations_in(found.jaxpr)], jaxpr_as_fun(found)(jnp.ones(2))[0].tolist()
        (['jit', 'add', 'mul'], [6.0, 6.0])
    """
    if all(replacement(eqn) is None for eqn in equations_in(closed.jaxpr)):
        return closed
    eqns: list[JaxprEqn] = []
    values: dict[Var, Atom] = {}
    _substitute(closed.jaxpr, replacement, values, eqns)
    outvars = [_renamed(atom, values) for atom in closed.jaxpr.outvars]
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns, outvars=outvars), closed.consts)


def _substitute(jaxpr: Jaxpr, replacement: Callable[[JaxprEqn], ClosedJaxpr | None], values: dict[Var, Atom], eqns: list[JaxprEqn]) -> None:
    """Append the equations of a jaxpr, or what replaces them; `values` says what stands for variables that have other names now."""
    for eqn in jaxpr.eqns:
        taken = [_renamed(atom, values) for atom in eqn.invars]
        found = replacement(eqn)
        if found is not None:
            own = dict(zip(found.jaxpr.invars, taken, strict=True))
            own.update((var, Literal(const, var.aval)) for var, const in zip(found.jaxpr.constvars, found.consts, strict=True))
            _substitute(found.jaxpr, replacement, own, eqns)
            values.update(zip(eqn.outvars, (_renamed(atom, own) for atom in found.jaxpr.outvars), strict=True))
        else:
            # The same jaxpr may stand in several places, so that each time its results need variables of their own.
            made = [Var(var.aval) for var in eqn.outvars]
            values.update(zip(eqn.outvars, made, strict=True))
            params = {key: _substituted_parameter(value, replacement) for key, value in eqn.params.items()}
            eqns.append(eqn.replace(invars=taken, outvars=made, params=params))


def _substituted_parameter(value: object, replacement: Callable[[JaxprEqn], ClosedJaxpr | None]) -> object:
    if isinstance(value, ClosedJaxpr):
        return substituted(value, replacement)
    if isinstance(value, Jaxpr):
        return substituted(ClosedJaxpr(value, ()), replacement).jaxpr if not value.constvars else value
    return _each(value, lambda item: _substituted_parameter(item, replacement))


def _renamed(atom: Atom, values: dict[Var, Atom]) -> Atom:
    return atom if isinstance(atom, Literal) else values.get(atom, atom)


def variables_in(atoms: Sequence[Atom]) -> list[Var]:
    """Those that are no numbers."""
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def aval_in(atom: Atom) -> Aval:
    """The shape and dtype of its array."""
    assert isinstance(atom.aval, ShapedArray)
    return Aval(tuple(atom.aval.shape), str(atom.aval.dtype))


def called(jaxpr: Jaxpr, eqn: JaxprEqn, given: Sequence[Var], values: Sequence[jax.Array]) -> list[jax.Array]:
    """The results of one equation of a jaxpr for these values of what it takes.

    It is called as a jaxpr of its own, which keeps where the equation comes from: what goes wrong names the user's line.
    """
    alone = jaxpr.replace(constvars=[], invars=list(given), outvars=eqn.outvars, eqns=[eqn])
    return list(jaxpr_as_fun(ClosedJaxpr(alone, []))(*values))


def widths_of_scan(eqn: JaxprEqn) -> tuple[int, int]:
    """How many inputs of a scan its body gets unchanged each turn, and how many it carries on; the others are cut into turns.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> turn = lambda total, each: (total * each, total)
        >>> widths_of_scan(jax.make_jaxpr(lambda x: jax.lax.scan(turn, 1.0, x))(jnp.ones(3)).eqns[0])
        (0, 1)
    """
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    constants, carried, _ = eqn.params["ft_in"].unpack()  # since JAX 0.11 two trees stand for the numbers
    return len(constants.vals), len(carried.vals)


def num_elements(atom: Atom) -> int:
    """How many elements its array has; 0 where it is none: a token."""
    return math.prod(atom.aval.shape) if isinstance(atom.aval, ShapedArray) else 0


def size_bytes(atom: Atom) -> int:
    """Bytes of its array."""
    return num_elements(atom) * atom.aval.dtype.itemsize if isinstance(atom.aval, ShapedArray) else 0
