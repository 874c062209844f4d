"""What is done to make each result of a jaxpr: the operations that lead to it, with the numbers that stand in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn

from simdist.program.dataflow import DataFlow
from simdist.program.jaxprs import Atom

__all__ = ["Recipe", "recipes"]

Recipe: TypeAlias = "frozenset[str]"
"""Names of operations, and numbers, each once."""

SHORT = 16  # elements of constants that count as numbers


def recipes(jaxpr: Jaxpr, consts: Sequence[object] = ()) -> list[Recipe]:
    """The recipe of each result of a jaxpr; compiled functions, branches and loops are looked into.

    Args:
        jaxpr: of the function.
        consts: the values of its constants, where they are known.

    Example:
        >>> import jax
        >>> [sorted(found) for found in recipes(jax.make_jaxpr(lambda x, y: (x + 1.0, -x * 2.0, y))(1.0, 2.0).jaxpr)]
        [['1.0', 'add'], ['2.0', 'mul', 'neg'], []]
    """
    return _Recipes().of_results(jaxpr, [frozenset()] * len(jaxpr.invars), consts)


class _Recipes(DataFlow[Recipe]):
    def of_constant(self, atom: Atom, value: object) -> Recipe:
        array = np.asarray(value)
        return frozenset() if value is None or array.size > SHORT else frozenset(str(array).split())

    def of_equation(self, eqn: JaxprEqn, given: Sequence[Recipe]) -> list[Recipe]:
        return [frozenset((eqn.primitive.name,)).union(*given)] * len(eqn.outvars)

    def joined(self, one: Recipe, other: Recipe) -> Recipe:
        return one | other

    def decided(self, by: Recipe, label: Recipe) -> Recipe:
        return by | label
