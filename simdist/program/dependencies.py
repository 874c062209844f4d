"""What the results of a jaxpr depend on: which of its arguments reach which of its results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from jax.extend.core import Jaxpr, JaxprEqn

from simdist.program.dataflow import DataFlow
from simdist.program.jaxprs import Atom

__all__ = ["labels_of_results"]


def labels_of_results(jaxpr: Jaxpr, labels: Sequence[int]) -> list[int]:
    """The labels that reach each result of a jaxpr.

    Loops, branches and compiled functions are looked into. A result depends on an argument too where its value does not, as in `x * 0`.

    Args:
        jaxpr: of the function.
        labels: of its arguments: sets as the bits of whole numbers.

    Returns:
        The same of its results.

    Example:
        >>> import jax
        >>> labels_of_results(jax.make_jaxpr(lambda x, y: (x + 1, x * y))(1.0, 2.0).jaxpr, [0b01, 0b10])
        [1, 3]
    """
    return _Dependencies().of_results(jaxpr, labels)


class _Dependencies(DataFlow[int]):
    def of_constant(self, atom: Atom, value: object) -> int:
        return 0

    def of_equation(self, eqn: JaxprEqn, given: Sequence[int]) -> list[int]:
        return [reduce(or_, given, 0)] * len(eqn.outvars)

    def joined(self, one: int, other: int) -> int:
        return one | other

    def decided(self, by: int, label: int) -> int:
        return by | label
