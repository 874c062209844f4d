"""What the results of a jaxpr depend on: which of its arguments reach which of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from operator import or_

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from simdist.program.jaxprs import Atom, inner_jaxprs, widths_of_scan

__all__ = ["labels_of_results"]

Labels = list[int]


def labels_of_results(jaxpr: Jaxpr, labels: Sequence[int]) -> Labels:
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
    known: dict[Var, int] = dict(zip(jaxpr.invars, labels, strict=True))

    def label(atom: Atom) -> int:
        return 0 if isinstance(atom, Literal) else known.get(atom, 0)

    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _of_equation(eqn, [label(atom) for atom in eqn.invars]), strict=True))
    return [label(atom) for atom in jaxpr.outvars]


def _of_equation(eqn: JaxprEqn, given: Labels) -> Labels:
    special = SPECIAL.get(eqn.primitive.name)
    if special is not None:
        return special(eqn, given)
    inner = list(inner_jaxprs(eqn))
    if len(inner) == 1 and len(inner[0].invars) == len(given) and len(inner[0].outvars) == len(eqn.outvars):
        return labels_of_results(inner[0], given)
    return [_all(given)] * len(eqn.outvars)


def _of_branches(eqn: JaxprEqn, given: Labels) -> Labels:
    choice, operands = given[0], given[1:]
    branches: Sequence[ClosedJaxpr] = eqn.params["branches"]
    results = [labels_of_results(branch.jaxpr, operands) for branch in branches]
    return [choice | _all(of_each) for of_each in zip(*results, strict=True)]


def _of_scan(eqn: JaxprEqn, given: Labels) -> Labels:
    body: ClosedJaxpr = eqn.params["jaxpr"]
    first, carried = widths_of_scan(eqn)
    constants, carry, each = given[:first], given[first : first + carried], given[first + carried :]

    def once(carry: Labels) -> Labels:
        return labels_of_results(body.jaxpr, [*constants, *carry, *each])

    carry = _until_stable(lambda carry: once(carry)[:carried], carry)
    return [*carry, *once(carry)[carried:]]


def _of_while(eqn: JaxprEqn, given: Labels) -> Labels:
    condition: ClosedJaxpr = eqn.params["cond_jaxpr"]
    body: ClosedJaxpr = eqn.params["body_jaxpr"]
    for_condition, for_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    asked, constants, carry = given[:for_condition], given[for_condition : for_condition + for_body], given[for_condition + for_body :]

    def once(carry: Labels) -> Labels:
        goes_on = _all(labels_of_results(condition.jaxpr, [*asked, *carry]))
        return [goes_on | label for label in labels_of_results(body.jaxpr, [*constants, *carry])]

    return _until_stable(once, carry)


def _until_stable(once: Callable[[Labels], Labels], labels: Labels) -> Labels:
    while (after := list(starmap(or_, zip(labels, once(labels), strict=True)))) != labels:
        labels = after
    return labels


def _all(labels: Sequence[int]) -> int:
    together = 0
    for label in labels:
        together |= label
    return together


SPECIAL: dict[str, Callable[[JaxprEqn, Labels], Labels]] = {"cond": _of_branches, "scan": _of_scan, "while": _of_while}
