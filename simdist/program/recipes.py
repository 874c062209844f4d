"""What is done to make each result of a jaxpr: the expression that leads to it, with the numbers that stand in it, as one number.

Equal expressions of equal arguments have equal recipes. A loop is one operation of all that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from simdist.program.dataflow import DataFlow
from simdist.program.jaxprs import Atom

__all__ = ["Recipe", "recipes"]

Recipe: TypeAlias = Hashable
"""Tells an expression from others."""

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def recipes(closed: ClosedJaxpr, arguments: Sequence[Recipe]) -> list[Recipe]:
    """The recipe of each result of a jaxpr; compiled functions and branches are looked into.

    Args:
        closed: the jaxpr of a function, with its constants.
        arguments: stand for what it is given.

    Example:
        >>> import jax
        >>> def found(function):
        ...     return recipes(jax.make_jaxpr(function)(1.0, 2.0), ["x", "y"])
        >>> one, other, same = found(lambda x, y: (2.0 * x + y, 3.0 * x + y, 2.0 * x + y))
        >>> one == same, one == other, found(lambda x, y: y)
        (True, False, ['y'])
    """
    return _Recipes().of_results(closed.jaxpr, arguments, closed.consts)


class _Recipes(DataFlow[Recipe]):
    def of_constant(self, atom: Atom, value: object) -> Recipe:
        array = np.asarray(value)
        return hash((array.dtype.name, array.shape, array.tobytes()))

    def of_equation(self, eqn: JaxprEqn, given: Sequence[Recipe]) -> list[Recipe]:
        done = hash((eqn.primitive.name, ADDRESS.sub("", str(eqn.params)), *given))
        return [hash((done, number)) for number in range(len(eqn.outvars))]

    def joined(self, one: Recipe, other: Recipe) -> Recipe:
        return hash(("or", one, other))

    def decided(self, by: Recipe, label: Recipe) -> Recipe:
        return hash(("if", by, label))

    def _of_scan(self, eqn: JaxprEqn, given: list[Recipe]) -> list[Recipe]:
        return self.of_equation(eqn, given)  # from turn to turn the expressions grow without end

    def _of_while(self, eqn: JaxprEqn, given: list[Recipe]) -> list[Recipe]:
        return self.of_equation(eqn, given)
