"""What is known of the values of a jaxpr: labels go from its arguments through equations, branches and loops to its results.

A `DataFlow` is one question about values, such as "which arguments do they depend on?". It says which label a constant has, which ones
the results of a single equation have, and how two labels are joined where a value is one or the other. The way through compiled functions,
branches and loops is the same for all questions and stands here. In the turns of a loop labels are joined until none changes.

Source: data-flow analysis over a lattice of labels, Kildall, "A unified approach to global program optimization", 1973.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from simdist.program.jaxprs import Atom, inner_jaxprs, widths_of_scan

__all__ = ["DataFlow"]

L = TypeVar("L")


class DataFlow(ABC, Generic[L]):
    """A question about the values of a jaxpr; answers are labels.

    Example:
        >>> import jax
        >>> class Depth(DataFlow[int]):
        ...     def of_constant(self, atom, value):
        ...         return 0
        ...     def of_equation(self, eqn, given):
        ...         return [1 + max(given, default=0)] * len(eqn.outvars)
        ...     def joined(self, one, other):
        ...         return max(one, other)
        >>> Depth().of_results(jax.make_jaxpr(lambda x, y: (x * y + 1, y))(1.0, 2.0).jaxpr, [0, 0])
        [2, 0]
    """

    @abstractmethod
    def of_constant(self, atom: Atom, value: object) -> L:
        """The label of a constant.

        Args:
            atom: that stands for it.
            value: of it; None where it is not known.
        """

    @abstractmethod
    def of_equation(self, eqn: JaxprEqn, given: Sequence[L]) -> Sequence[L]:
        """The labels of the results of an equation that is no compiled function, branch or loop.

        Args:
            eqn: the equation.
            given: the labels of what it takes.
        """

    @abstractmethod
    def joined(self, one: L, other: L) -> L:
        """The label of a value that has one of two labels: of the results of branches, and of what the turns of a loop carry on."""

    def decided(self, by: L, label: L) -> L:
        """The label of a value that a branch or the end of a loop has decided; `by` is the label of what that depends on."""
        return label

    def of_turn(self, label: L, var: Var) -> L:
        """The label of what one turn of a scan gets of an array; `var` stands for it."""
        return label

    def of_turns(self, label: L, var: Var) -> L:
        """The label of an array that a scan makes of what each turn adds to it; `var` stands for the array."""
        return label

    def of_results(self, jaxpr: Jaxpr, labels: Sequence[L], consts: Sequence[object] = ()) -> list[L]:
        """The labels of the results of a jaxpr.

        Args:
            jaxpr: of a function.
            labels: of its arguments.
            consts: the values of its constants, where they are known.
        """
        known = dict(zip(jaxpr.invars, labels, strict=True))
        for number, var in enumerate(jaxpr.constvars):
            known[var] = self.of_constant(var, consts[number] if number < len(consts) else None)

        def label(atom: Atom) -> L:
            return self.of_constant(atom, atom.val) if isinstance(atom, Literal) else known[atom]

        for eqn in jaxpr.eqns:
            known.update(zip(eqn.outvars, self._of_any_equation(eqn, [label(atom) for atom in eqn.invars]), strict=True))
        return [label(atom) for atom in jaxpr.outvars]

    def _of_any_equation(self, eqn: JaxprEqn, given: list[L]) -> Sequence[L]:
        match eqn.primitive.name:
            case "cond":
                return self._of_branches(eqn, given)
            case "scan":
                return self._of_scan(eqn, given)
            case "while":
                return self._of_while(eqn, given)
            case _:
                inner = list(_closed_jaxprs(eqn))
                if len(inner) == 1 and _is_called(eqn, inner[0][0]):
                    return self.of_results(inner[0][0], given, inner[0][1])
                return self.of_equation(eqn, given)

    def _of_branches(self, eqn: JaxprEqn, given: list[L]) -> list[L]:
        branches: Sequence[ClosedJaxpr] = eqn.params["branches"]
        results = self.of_results(branches[0].jaxpr, given[1:], branches[0].consts)
        for branch in branches[1:]:
            results = self._each_joined(results, self.of_results(branch.jaxpr, given[1:], branch.consts))
        return [self.decided(given[0], label) for label in results]

    def _of_scan(self, eqn: JaxprEqn, given: list[L]) -> list[L]:
        body: ClosedJaxpr = eqn.params["jaxpr"]
        first, carried = widths_of_scan(eqn)
        constants, carry, arrays = given[:first], given[first : first + carried], given[first + carried :]
        turn = list(map(self.of_turn, arrays, body.jaxpr.invars[first + carried :]))
        while True:
            results = self.of_results(body.jaxpr, [*constants, *carry, *turn], body.consts)
            after = self._each_joined(carry, results[:carried])
            if after == carry:
                return [*carry, *map(self.of_turns, results[carried:], eqn.outvars[carried:])]
            carry = after

    def _of_while(self, eqn: JaxprEqn, given: list[L]) -> list[L]:
        condition: ClosedJaxpr = eqn.params["cond_jaxpr"]
        body: ClosedJaxpr = eqn.params["body_jaxpr"]
        first = eqn.params["cond_nconsts"]
        last = first + eqn.params["body_nconsts"]
        asked, constants, carry = given[:first], given[first:last], given[last:]
        while True:
            (goes_on,) = self.of_results(condition.jaxpr, [*asked, *carry], condition.consts)
            results = self.of_results(body.jaxpr, [*constants, *carry], body.consts)
            after = [self.decided(goes_on, label) for label in self._each_joined(carry, results)]
            if after == carry:
                return carry
            carry = after

    def _each_joined(self, labels: Sequence[L], others: Sequence[L]) -> list[L]:
        return list(map(self.joined, labels, others))


def _closed_jaxprs(eqn: JaxprEqn) -> Iterator[tuple[Jaxpr, Sequence[object]]]:
    """The jaxprs in an equation, with their constants."""
    values = [item for value in eqn.params.values() for item in (value if isinstance(value, (tuple, list)) else (value,))]
    consts = [_constants_of(value) for value in values if isinstance(value, (ClosedJaxpr, Jaxpr))]
    return zip(inner_jaxprs(eqn), consts, strict=True)


def _constants_of(jaxpr: object) -> Sequence[object]:
    return jaxpr.consts if isinstance(jaxpr, ClosedJaxpr) else ()


def _is_called(eqn: JaxprEqn, jaxpr: Jaxpr) -> bool:
    """Whether an equation calls this jaxpr once, with all that it takes, and has its results."""
    pairs = [(eqn.invars, jaxpr.invars), (eqn.outvars, jaxpr.outvars)]
    return all([*map(_shape, outer)] == [*map(_shape, inner)] for outer, inner in pairs)


def _shape(atom: Atom) -> tuple[int, ...] | None:
    return atom.aval.shape if isinstance(atom.aval, ShapedArray) else None
