"""Sparse reads: a step that only looks up rows of a variable reads those rows, and gives gradients of rows.

A traced step holds a read of the whole variable, lookups of it, and what `value_and_grad` made of them: spreads. Where nothing else of
the step uses the value of the variable, and its ids follow from the batch, the read becomes one of rows; where a spread goes straight into
an update, the gradient of the rows that were read does. All other lookups and spreads become what JAX makes of ``jnp.take``.

Replicas of a worker read their rows together (`simdist.runtime.joint_rows`). A gradient whose sum over them goes straight into an update is
given to the sum as rows and their positions among the rows of all replicas. So the sum is one of rows, too.

Invariant: the numbers are those of the dense step. Rows that stand in several ids get the sum of their gradients, in the order of the ids.

Taught in lesson 06.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core
from jax.extend.core import JaxprEqn, Var

from simdist.errors import DenseUpdateWarning
from simdist.program.collective import COLLECTIVE, SPARSE_SUM, Collective, bind_collective
from simdist.program.jaxprs import Atom, aval_in, called, primitives_in, variables_in
from simdist.program.lookups import LOOKUP, SPREAD, plain_lookup, plain_spread, zeros_for_padding
from simdist.program.markers import Marker, RowsMarker, UpdateMarker
from simdist.program.operations import Reference, Rule, VariableHandle
from simdist.program.row_lookups import RowRead, found_row_reads
from simdist.program.row_numbers import joint_count
from simdist.program.sparse_sums import with_rows_in_sums
from simdist.program.traces import jaxpr_of
from simdist.program.values import Aval, aval_of

__all__ = ["with_row_reads"]

MARKER = "simdist_marker"
Value = Any
"""A value of the step, or a `_RowGradient` or `_RowSum` in its place."""


def with_row_reads(
    name: str,
    closed: jex_core.ClosedJaxpr,
    markers: Sequence[Marker],
    num_replicas: int = 1,
    of_all: Callable[[int], int] = lambda count: count,
) -> tuple[jex_core.ClosedJaxpr, list[Marker]]:
    """The step with reads of rows in it, and its markers.

    Args:
        name: of the step, for warnings.
        closed: its jaxpr.
        markers: what its markers stand for, by number.
        num_replicas: that take the step together.
        of_all: how many ids all of them have, by the number that this one has.
    """
    if not any(primitive in (LOOKUP, SPREAD) for primitive in primitives_in(closed.jaxpr)):
        return with_rows_in_sums(closed), list(markers)
    reads = found_row_reads(name, closed, markers, num_replicas, of_all)
    if reads and num_replicas > 1:
        rewriting = _Rewriting(closed, markers, reads, num_replicas)
        closed, markers, reads = rewriting.closed(), rewriting.markers, {}
    rewriting = _Rewriting(with_rows_in_sums(closed), markers, reads, 1)
    return rewriting.closed(), rewriting.markers


@dataclass(eq=False)
class _RowGradient:
    """A gradient with respect to a variable of which rows were read: its parts, in order; each the gradient of a lookup, and its ids.

    One without parts is zero: that of a replica without a part of the batch.
    """

    read: RowRead
    parts: list[tuple[jax.Array, Atom, jax.Array]]

    def rows(self) -> jax.Array:
        """The gradient of the rows that were read [k, ...]."""
        variable, total = self.read.variable, None
        shape = variable.shape[1:]
        for given, ids, numbers in self.parts:
            flat = (zeros_for_padding(given, numbers) if self.read.is_padded(ids) else given).reshape(numbers.size, *shape)
            part = jnp.zeros((self.read.count, *shape), given.dtype).at[self.read.at(ids)].add(flat, mode="promise_in_bounds")
            total = part if total is None else total + part
        return jnp.zeros((self.read.count, *shape), variable.dtype) if total is None else total

    def dense(self) -> jax.Array:
        """The same gradient with the shape of the variable."""
        num_rows = self.read.variable.shape[0]
        parts = [plain_spread(given, numbers, num_rows, self.read.is_padded(ids)) for given, ids, numbers in self.parts]
        return parts[0] if len(parts) == 1 else sum(parts[1:], parts[0])


@dataclass(eq=False)
class _RowSum:
    """The sum of such gradients over replicas, for the rows that these have read together [m, ...]."""

    read: RowRead
    rows: jax.Array


class _Rewriting:
    """Traces a step once more, with reads of rows in it.

    Args:
        closed, markers: as of `with_row_reads`.
        reads: those of rows.
        num_replicas: that read them together. Of several, spreads of other variables stay what they are: sums may take them as rows.
    """

    def __init__(self, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker], reads: Mapping[Var, RowRead], num_replicas: int) -> None:
        self.jaxpr = closed.jaxpr
        self.reads = reads
        self.num_replicas = num_replicas
        self.markers = list(markers)
        self.values: dict[Var, Value] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.rows_of = {id(read): read for read in reads.values()}

    def closed(self) -> jex_core.ClosedJaxpr:
        """The new step."""

        def step() -> list[jax.Array]:
            for eqn in self.jaxpr.eqns:
                self._add(eqn)
            return [self._dense(var) for var in self.jaxpr.outvars]

        return jaxpr_of(step)

    def _add(self, eqn: JaxprEqn) -> None:
        name = eqn.primitive.name
        if name == MARKER and eqn.outvars and eqn.outvars[0] in self.reads:
            return  # rows are read at the first lookup, when the ids are known
        if name == LOOKUP:
            self.values[eqn.outvars[0]] = self._lookup(eqn)
        elif name == SPREAD:
            self._spread(eqn)
        elif name == "add_any" and (total := self._sum(eqn)) is not None:
            self.values[eqn.outvars[0]] = total
        elif name == COLLECTIVE and (gradient := self._summed(eqn)) is not None:
            self.values[eqn.outvars[0]] = self._sum_over_replicas(eqn.params["collective"], gradient)
        elif name == MARKER and isinstance(marker := self.markers[eqn.params["number"]], UpdateMarker):
            self._update(eqn, marker)
        else:
            self._as_it_is(eqn)

    def _as_it_is(self, eqn: JaxprEqn) -> None:
        given = list(dict.fromkeys(variables_in(eqn.invars)))
        results = called(self.jaxpr, eqn, given, list(map(self._dense, given)))
        self.values.update(zip(eqn.outvars, results, strict=True))

    def _lookup(self, eqn: JaxprEqn) -> jax.Array:
        table, ids = eqn.invars
        read = self.reads.get(table) if isinstance(table, Var) else None
        if read is None:
            return plain_lookup(self._dense(table), self._dense(ids), eqn.params["padded"])
        if not read.values:
            read.values = self._rows(read)
        rows = read.values[0].at[read.at(ids)].get(mode="promise_in_bounds")
        rows = rows.reshape(*aval_in(ids).shape, *rows.shape[1:])
        return zeros_for_padding(rows, self._dense(ids)) if read.is_padded(ids) else rows

    def _rows(self, read: RowRead) -> list[jax.Array]:
        variable, number = read.variable, len(self.markers)
        self.markers.append(RowsMarker(variable, read.number, read.host_ids))
        numbers = Aval((read.count,), "int32")
        outputs = (Aval((read.count, *variable.shape[1:]), variable.dtype), numbers, *([numbers] if self.num_replicas > 1 else ()))
        (marker,) = {eqn.primitive for eqn in self.jaxpr.eqns if eqn.primitive.name == MARKER}
        return list(marker.bind(*map(self._dense, read.sources), number=number, outputs=outputs))

    def _spread(self, eqn: JaxprEqn) -> None:
        given, ids = eqn.invars
        (made,) = eqn.outvars
        for read in self.rows_of.values():
            if (
                ids in read.ids
                and read.values
                and read.variable.shape == aval_in(made).shape
                and self._number(read) == eqn.params["number"]
            ):
                self.values[made] = _RowGradient(read, [(self._dense(given), ids, self._dense(ids))])
                return
        if self.num_replicas > 1:
            self._as_it_is(eqn)
        else:
            self.values[made] = plain_spread(self._dense(given), self._dense(ids), eqn.params["num_rows"], eqn.params["padded"])

    def _number(self, read: RowRead) -> int:
        """By which number the lookups of a read know its variable."""
        return next(
            eqn.params["number"]
            for eqn in self.jaxpr.eqns
            if eqn.primitive.name == LOOKUP and self.reads.get(eqn.invars[0]) is read  # pyright: ignore[reportArgumentType]
        )

    def _sum(self, eqn: JaxprEqn) -> _RowGradient | None:
        first, second = map(self._value, eqn.invars)
        if isinstance(first, _RowGradient) and isinstance(second, _RowGradient) and first.read is second.read:
            return _RowGradient(first.read, [*first.parts, *second.parts])
        return None

    # -- sums over replicas ---------------------------------------------------------------------------------------

    def _summed(self, eqn: JaxprEqn) -> _RowGradient | None:
        """The gradient of rows that is given to a sum over replicas, where nothing uses the sum but optimizers that change its table."""
        if self.num_replicas == 1 or eqn.params["collective"].kind != SPARSE_SUM:
            return None
        (given,), (total,) = eqn.invars, eqn.outvars
        tables = {self._changed_by(user, number) for user in self.jaxpr.eqns for number, atom in enumerate(user.invars) if atom is total}
        table = tables.pop() if len(tables) == 1 and total not in self.jaxpr.outvars else None
        if table is None:
            return None
        value = self._value(given)
        if isinstance(value, _RowGradient):
            return value if value.read.variable.ref() == table else None
        read = next((read for read in self.rows_of.values() if read.variable.ref() == table and read.values), None)
        return _RowGradient(read, []) if read is not None and self._is_zero(given) else None

    def _changed_by(self, eqn: JaxprEqn, number: int) -> Reference | None:
        """The variable that an optimizer changes with an operand of an equation; None where it is something else."""
        marker = self.markers[eqn.params["number"]] if eqn.primitive.name == MARKER else None
        if not isinstance(marker, UpdateMarker) or isinstance(marker.rule, str):
            return None
        return marker.variables[number].ref()

    def _is_zero(self, atom: Atom) -> bool:
        """Whether a value is zeros, as a gradient is on which nothing depends."""
        made_by = next((eqn for eqn in self.jaxpr.eqns if atom in eqn.outvars), None)
        if made_by is None or made_by.primitive.name != "broadcast_in_dim":
            return False
        (of,) = made_by.invars
        return isinstance(of, jex_core.Literal) and not of.val

    def _sum_over_replicas(self, collective: Collective, gradient: _RowGradient) -> _RowSum:
        read = gradient.read
        # Copied, so that the kernel of the rows makes the positions, too: what it makes can travel while it still runs.
        operands = [jnp.array(read.values[2], copy=True), gradient.rows()]
        count = joint_count([read.count] * self.num_replicas, read.variable.shape[0])
        avals = tuple(map(aval_of, operands))
        total = Aval((count, *avals[1].shape[1:]), avals[1].dtype)
        of_rows = replace(collective, operands=avals, outputs=(total,), row_read=read.number)
        return _RowSum(read, bind_collective(of_rows, operands)[0])

    def _update(self, eqn: JaxprEqn, marker: UpdateMarker) -> None:
        """An update by an optimizer takes the gradients of rows as they are."""
        operands, reads = list[jax.Array](), list[int | None]()
        for variable, atom in zip(marker.variables, eqn.invars, strict=True):
            value = self._value(atom)
            if isinstance(value, _RowSum):
                reads.append(value.read.number)
                operands.append(value.rows)
            elif self._takes_rows(value, marker, variable):
                reads.append(value.read.number)
                operands.append(value.rows())
            else:
                self._warn_of_dense_rows(marker.rule, variable)
                reads.append(None)
                operands.append(self._dense(atom))
        if any(number is not None for number in reads):
            self.markers[eqn.params["number"]] = UpdateMarker(marker.rule, marker.variables, tuple(reads))
        eqn.primitive.bind(*operands, **eqn.params)

    def _warn_of_dense_rows(self, rule: Rule, variable: VariableHandle) -> None:
        """Say that a rule which leaves rows without a gradient alone gets a gradient of the whole table."""
        if isinstance(rule, str) or not rule.lazy_rows or all(read.variable is not variable for read in self.rows_of.values()):
            return
        warnings.warn(
            f"lazy_rows=True has no effect on {variable.name!r} in a step: its gradient does not go from lookups straight into the "
            "optimizer (it was clipped, or summed by the step itself), so it is that of the whole table, and all rows change.",
            DenseUpdateWarning,
            stacklevel=2,
        )

    def _takes_rows(self, value: Value, marker: UpdateMarker, variable: VariableHandle) -> TypeGuard[_RowGradient]:
        """Whether an operand of an update is the gradient of all rows that were read; a replica has that of its own."""
        if not isinstance(value, _RowGradient) or self.num_replicas > 1:
            return False
        return not isinstance(marker.rule, str) and value.read.variable is variable

    def _value(self, atom: Atom) -> Value:
        return self.values.get(atom) if isinstance(atom, Var) else None

    def _dense(self, atom: Atom) -> Value:
        value = atom.val if isinstance(atom, jex_core.Literal) else self.values[atom]
        return value.dense() if isinstance(value, _RowGradient) else value
