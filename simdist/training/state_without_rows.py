"""What layers remember of a call in which a row of zeros stands for none: counters count, statistics of rows stay as they are.

A call with no rows assigns what it computes of something else than rows; what comes from no rows is no number, and is not assigned. Where
layers can only be called with a row, the jaxpr of the call says which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var, jaxpr_as_fun

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree
from simdist.program.dependencies import labels_of_results
from simdist.program.jaxprs import variables_in
from simdist.program.operations import Rule, VariableHandle
from simdist.program.traces import jaxpr_of
from simdist.program.tracing import Tracer

__all__ = ["StateWithoutRows", "state_without_rows"]

REMEDY = "Drop the remainder of the data (batch(n, drop_remainder=True)), pad it, or write the layers so that they take 0 rows."


@dataclass(frozen=True)
class StateWithoutRows:
    """What a call of layers assigns.

    Attributes:
        writes: the rules and the variables, each of which has an operand, in order.
        depend: of each operand, whether it depends on rows.
        fixed: the jaxpr of those that do not.
        given: what it takes.
    """

    writes: Sequence[tuple[Rule, Sequence[VariableHandle]]]
    depend: Sequence[bool]
    fixed: Jaxpr
    given: Sequence[jax.Array]

    def assign(self, tracer: Tracer) -> None:
        """Assign what does not depend on rows. Other variables get the value that they have, as all replicas assign the same ones.

        Raises:
            InvalidArgumentError: an optimizer is to change one of these.
        """
        computed = iter(jaxpr_as_fun(ClosedJaxpr(self.fixed, []))(*self.given))
        operands = iter([None if depends else next(computed) for depends in self.depend])
        for rule, variables in self.writes:
            given = [(variable, next(operands)) for variable in variables]
            tracer.update(rule, variables, [_unchanged(tracer, rule, of) if operand is None else operand for of, operand in given])


def state_without_rows(tracer: Tracer, call: Callable[[Tree], object], rows: Tree) -> StateWithoutRows:
    """Trace a call of layers with a row that stands for none; nothing is assigned yet. Lookups of rows of tables count as lookups of none.

    Args:
        tracer: of the step.
        call: of layers.
        rows: the row, in the structure that `call` takes.

    Raises:
        InvalidArgumentError: what is assigned depends on how many rows there are.
    """
    counts = tracer.lookup_counts
    tracer.lookup_counts = dict(counts)
    state = _traced(tracer, call, rows)
    tracer.lookup_counts = {table: counts.get(table, 0) for table in tracer.lookup_counts}
    if not all(state.depend):
        with tracer.optional_reads():  # nothing of it is used
            of_two = _traced(tracer, call, jax.tree_util.tree_map(lambda leaf: jnp.concatenate([leaf, leaf]), rows))
        tracer.lookup_counts = {table: counts.get(table, 0) for table in tracer.lookup_counts}
        if str(of_two.fixed) != str(state.fixed):
            raise InvalidArgumentError(
                "A layer assigns what it computes of the number of rows. A replica has no rows of this batch, and the layers cannot be "
                f"traced without rows. {REMEDY}"
            )
    return state


def _traced(tracer: Tracer, call: Callable[[Tree], object], rows: Tree) -> StateWithoutRows:
    leaves, structure = jax.tree_util.tree_flatten(rows)
    writes: list[tuple[Rule, Sequence[VariableHandle]]] = []

    def assigned(leaves: Sequence[jax.Array]) -> list[jax.Array]:
        with tracer.overlay({}) as overlay:
            call(jax.tree_util.tree_unflatten(structure, leaves))
        writes.extend((rule, variables) for rule, variables, _ in overlay.writes)
        return [operand for _, _, operands in overlay.writes for operand in operands]

    seeds = dict(tracer.seeds)
    closed = jaxpr_of(assigned, leaves)
    tracer.seeds = seeds  # those that have counted on are values of this jaxpr
    depend = [bool(label) for label in labels_of_results(closed.jaxpr, [1] * len(leaves))]
    values = dict(zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*closed.consts, *leaves], strict=True))
    fixed, needed = _without_rows(closed.jaxpr, depend)
    given = [var for var in values if var in needed]
    return StateWithoutRows(writes, depend, fixed.replace(constvars=[], invars=given), [values[var] for var in given])


def _without_rows(jaxpr: Jaxpr, depend: Sequence[bool]) -> tuple[Jaxpr, set[Var]]:
    """A jaxpr without the results that depend on rows, and without what only they need; and the variables that it has."""
    results = [result for result, depends in zip(jaxpr.outvars, depend, strict=True) if not depends]
    needed: set[Var] = set(variables_in(results))
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        if any(var in needed for var in eqn.outvars):
            eqns.append(eqn)
            needed.update(variables_in(eqn.invars))
    return jaxpr.replace(outvars=results, eqns=eqns[::-1]), needed


def _unchanged(tracer: Tracer, rule: Rule, variable: VariableHandle) -> jax.Array:
    """The operand with which a rule leaves a variable as it is."""
    if rule == "assign":
        return tracer.read(variable)
    if rule == "add":
        return jnp.zeros(variable.shape, variable.dtype)
    raise InvalidArgumentError(
        f"A layer changes {variable.name!r} by an optimizer, from rows of which a replica has none, and the layers cannot be traced "
        f"without rows. {REMEDY}"
    )
