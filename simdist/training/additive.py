"""Whether metrics add up: whether a step makes of each of their variables its value plus something that does not depend on metrics.

What such a metric counts in several places, from zero, can be added up. A largest value, or a moving average, cannot; Keras does not say
which metric is of which kind, so the traced step is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax.extend.core import Jaxpr, JaxprEqn, Var

from simdist.program.dataflow import DataFlow
from simdist.program.dependencies import labels_of_results
from simdist.program.jaxprs import Atom
from simdist.program.operations import (
    Compute,
    Next,
    Program,
    RandomKey,
    Read,
    ReadRows,
    Reference,
    Register,
    TracedCollective,
    Update,
)
from simdist.variables.aggregation import is_sum_of_replicas
from simdist.variables.handles import variable_of

__all__ = ["adds_up", "assigned_of_batches", "assigned_otherwise"]

UNTOUCHED = -1  # depends on no metric
MIXED = -2  # depends on metrics otherwise than by a sum
SAME = ("convert_element_type", "copy", "stop_gradient")


def adds_up(jaxpr: Jaxpr, given: Sequence[Var], results: Sequence[Atom]) -> list[bool]:
    """For each metric's variable whether its result is its value plus something that depends on none of them.

    Args:
        jaxpr: of a step.
        given: the inputs that are the values of the variables.
        results: the outputs that are their new values, in the same order.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> step = lambda total, largest, x: (total + jnp.sum(x), jnp.maximum(largest, jnp.max(x)))
        >>> traced = jax.make_jaxpr(step)(0.0, 0.0, jnp.ones(3)).jaxpr
        >>> adds_up(traced, traced.invars[:2], traced.outvars)
        [True, False]
    """
    numbers = {var: number for number, var in enumerate(given)}
    kinds = _Sums().of_results(jaxpr.replace(outvars=list(results)), [numbers.get(var, UNTOUCHED) for var in jaxpr.invars])
    return [kind == number for number, kind in enumerate(kinds)]


def assigned_otherwise(program: Program) -> set[Reference]:
    """The variables, each the sum of the replicas' values, to which a step assigns something else than their value plus something.

    Args:
        program: of the step of one replica.
    """
    numbers = {op.variable.ref(): n for n, op in enumerate(program.operations) if isinstance(op, Read) and _is_sum(op)}
    kinds: dict[Register, int] = {}
    otherwise: set[Reference] = set()
    for op in program.operations:
        if isinstance(op, Read):
            kinds[op.output] = numbers.get(op.variable.ref(), UNTOUCHED)
        elif isinstance(op, Compute):
            jaxpr = op.kernel.closed.jaxpr
            found = _Sums().of_results(jaxpr, [kinds.get(number, UNTOUCHED) for number in op.inputs])
            kinds.update(zip(op.outputs, found, strict=True))
        elif isinstance(op, TracedCollective):
            is_touched = any(kinds.get(number, UNTOUCHED) != UNTOUCHED for number in op.operands)
            kinds.update((number, MIXED if is_touched else UNTOUCHED) for number in op.outputs)
        elif isinstance(op, Update) and op.rule == "assign":
            given = zip((variable.ref() for variable in op.variables), op.operands, strict=True)
            otherwise |= {ref for ref, operand in given if ref not in numbers or kinds.get(operand, UNTOUCHED) != numbers[ref]}
    return otherwise


def assigned_of_batches(program: Program) -> set[Reference]:
    """The variables to which a step assigns what depends on its batch, on its random numbers, or on what metrics have counted so far.

    Workers that begin with the same count would all assign the same, and each of them should have added to it.

    Args:
        program: of the step of one worker.
    """
    dependent: set[Register] = set()
    found: set[Reference] = set()
    for op in program.operations:
        match op:
            case Next() | ReadRows():
                dependent.update(op.outputs)
            case RandomKey():
                dependent.add(op.output)
            case Read() if _is_sum(op):
                dependent.add(op.output)
            case Compute():
                labels = labels_of_results(op.kernel.closed.jaxpr, [number in dependent for number in op.inputs])
                dependent.update(number for number, label in zip(op.outputs, labels, strict=True) if label)
            case TracedCollective() if dependent.intersection(op.operands):
                dependent.update(op.outputs)
            case Update(rule="assign"):
                found |= {variable.ref() for variable, number in zip(op.variables, op.operands, strict=True) if number in dependent}
            case _:
                pass
    return found


def _is_sum(read: Read) -> bool:
    return is_sum_of_replicas(variable_of(read.variable))


class _Sums(DataFlow[int]):
    """Of each value the number of the metric's variable that something was added to, or `UNTOUCHED`, or `MIXED`."""

    def of_constant(self, atom: Atom, value: object) -> int:
        return UNTOUCHED

    def of_equation(self, eqn: JaxprEqn, given: Sequence[int]) -> list[int]:
        touched, name = [kind for kind in given if kind != UNTOUCHED], eqn.primitive.name
        if not touched:
            return [UNTOUCHED] * len(eqn.outvars)
        is_sum = name in ("add", "add_any", *SAME) or (name == "sub" and given[1] == UNTOUCHED)
        return [touched[0] if is_sum and len(touched) == 1 else MIXED] * len(eqn.outvars)

    def joined(self, one: int, other: int) -> int:
        return one if one == other else MIXED

    def decided(self, by: int, label: int) -> int:
        return label if by == UNTOUCHED else MIXED

    def of_turn(self, label: int, var: Var) -> int:
        return label if label == UNTOUCHED else MIXED

    def of_turns(self, label: int, var: Var) -> int:
        return label if label == UNTOUCHED else MIXED
