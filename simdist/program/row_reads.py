"""Sparse reads: a step that only looks up rows of a variable reads those rows, and gives gradients of rows.

A traced step holds a read of the whole variable, lookups of it, and what `value_and_grad` made of them: spreads. Where nothing else of
the step uses the value of the variable, and its ids follow from the batch, the read becomes one of rows; where a spread goes straight into
an update, the gradient of the rows that were read does. All other lookups and spreads become what JAX makes of ``jnp.take``.

Invariant: the numbers are those of the dense step. Rows that stand in several ids get the sum of their gradients, in the order of the ids.

Taught in lesson 06.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core
from jax.extend.core import JaxprEqn, Var

from simdist.errors import DenseReadWarning
from simdist.program.jaxprs import Atom, aval_in, called, primitives_in, variables_in
from simdist.program.kernels import kernel_of
from simdist.program.lookups import LOOKUP, SPREAD, plain_lookup, plain_spread, zeros_for_padding
from simdist.program.markers import ArgumentMarker, Marker, NextMarker, ReadMarker, RowsMarker, UpdateMarker
from simdist.program.operations import VariableHandle
from simdist.program.row_numbers import HostIds
from simdist.program.values import Aval

__all__ = ["with_row_reads"]

MARKER = "simdist_marker"
Value = Any
"""A value of the step, or a `_RowGradient` in its place."""


def with_row_reads(name: str, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker]) -> tuple[jex_core.ClosedJaxpr, list[Marker]]:
    """The step with reads of rows in it, and its markers.

    Args:
        name: of the step, for warnings.
        closed: its jaxpr.
        markers: what its markers stand for, by number.
    """
    if not any(primitive in (LOOKUP, SPREAD) for primitive in primitives_in(closed.jaxpr)):
        return closed, list(markers)
    rewriting = _Rewriting(closed, markers, _Finding(name, closed, markers).reads())
    return rewriting.closed(), rewriting.markers


@dataclass(eq=False)
class _RowRead:
    """A read of rows.

    Attributes:
        number: among those of the step.
        ids: of each lookup, in order; those that are padded are known to `host_ids`.
        sources: what they are computed from.
        values: the rows [k, ...] and the positions [k] of the ids, once they stand in the new step.
    """

    variable: VariableHandle
    number: int
    ids: list[Atom]
    sources: list[Var]
    host_ids: HostIds
    values: list[jax.Array] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(_size, self.ids))

    def is_padded(self, ids: Atom) -> bool:
        """Whether ids below 0 are padding in this lookup."""
        return self.host_ids.padded[self.ids.index(ids)]

    def at(self, ids: Atom) -> jax.Array:
        """The positions of the rows of one lookup."""
        before = sum(map(_size, self.ids[: self.ids.index(ids)]))
        return self.values[1][before : before + _size(ids)]


@dataclass(eq=False)
class _RowGradient:
    """A gradient with respect to a variable of which rows were read: its parts, in order; each the gradient of a lookup, and its ids."""

    read: _RowRead
    parts: list[tuple[jax.Array, Atom, jax.Array]]

    def rows(self) -> jax.Array:
        """The gradient of the rows that were read [k, ...]."""
        shape, total = self.read.variable.shape[1:], None
        for given, ids, numbers in self.parts:
            flat = (zeros_for_padding(given, numbers) if self.read.is_padded(ids) else given).reshape(-1, *shape)
            part = jnp.zeros((self.read.count, *shape), given.dtype).at[self.read.at(ids)].add(flat, mode="promise_in_bounds")
            total = part if total is None else total + part
        assert total is not None
        return total

    def dense(self) -> jax.Array:
        """The same gradient with the shape of the variable."""
        num_rows = self.read.variable.shape[0]
        parts = [plain_spread(given, numbers, num_rows, self.read.is_padded(ids)) for given, ids, numbers in self.parts]
        return parts[0] if len(parts) == 1 else sum(parts[1:], parts[0])


def _shape(atom: Atom) -> tuple[int, ...]:
    return aval_in(atom).shape


def _size(ids: Atom) -> int:
    return prod(_shape(ids))


class _Finding:
    """Finds the reads of a step that may be reads of rows."""

    def __init__(self, name: str, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker]) -> None:
        self.name = name
        self.jaxpr = closed.jaxpr
        self.constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.markers = markers
        self.made_by: dict[Var, JaxprEqn] = {var: eqn for eqn in self.jaxpr.eqns for var in eqn.outvars}
        self.users: dict[Var, list[JaxprEqn]] = {}
        for eqn in self.jaxpr.eqns:
            for var in variables_in(eqn.invars):
                self.users.setdefault(var, []).append(eqn)

    def reads(self) -> dict[Var, _RowRead]:
        """The reads of rows, by what the read gave of the whole variable."""
        found: dict[Var, _RowRead] = {}
        results = set(variables_in(self.jaxpr.outvars))
        for eqn in self.jaxpr.eqns:
            marker = self._marker(eqn)
            if not isinstance(marker, ReadMarker) or not marker.variable.moves_rows or eqn.outvars[0] in results:
                continue
            read = self._read(eqn.outvars[0], marker.variable, len(found))
            if read is not None:
                found[eqn.outvars[0]] = read
        return found

    def _read(self, value: Var, variable: VariableHandle, number: int) -> _RowRead | None:
        lookups = self.users.get(value, [])
        if not lookups or any(eqn.primitive.name != LOOKUP or value in eqn.invars[1:] for eqn in lookups):
            return None
        ids = list(dict.fromkeys(eqn.invars[1] for eqn in lookups))
        if sum(map(_size, ids)) >= variable.shape[0] or not all(map(_size, ids)):
            return None  # the whole table is smaller
        sliced = self._slice(ids)
        if sliced is None:
            warnings.warn(
                f"{self.name} looks up rows of {variable.name!r} by ids that do not follow from its batch alone: they depend on a "
                "variable, a random number or a collective. Each step reads the whole table. Compute the ids from the batch.",
                DenseReadWarning,
                stacklevel=2,
            )
            return None
        eqns, sources = sliced
        used = [var for var in self.constants if any(var in eqn.invars for eqn in eqns) or var in ids]
        part = self.jaxpr.replace(constvars=used, invars=sources, outvars=ids, eqns=eqns)
        closed = jex_core.ClosedJaxpr(part, [self.constants[var] for var in used])
        kernel = kernel_of("ids of a step", jex_core.jaxpr_as_fun(closed), [aval_in(var) for var in sources])
        padded = [all(eqn.params["padded"] for eqn in lookups if eqn.invars[1] is own) for own in ids]
        return _RowRead(variable, number, ids, sources, HostIds(variable.name, variable.shape[0], kernel, padded))

    def _slice(self, ids: Sequence[Atom]) -> tuple[list[JaxprEqn], list[Var]] | None:
        """The equations that give the ids, and what of batch and arguments they need; None where they need more than that."""
        needed, sources, stack = dict[int, None](), dict[Var, None](), variables_in(ids)
        while stack:
            var = stack.pop()
            eqn = self.made_by.get(var)
            if eqn is None or id(eqn) in needed:
                continue
            if isinstance(self._marker(eqn), (NextMarker, ArgumentMarker)):
                sources[var] = None
            elif eqn.primitive.name.startswith("simdist_"):
                return None
            else:
                needed[id(eqn)] = None
                stack += variables_in(eqn.invars)
        return [eqn for eqn in self.jaxpr.eqns if id(eqn) in needed], list(sources)

    def _marker(self, eqn: JaxprEqn) -> Marker | None:
        return self.markers[eqn.params["number"]] if eqn.primitive.name == MARKER else None


class _Rewriting:
    """Traces a step once more, with reads of rows in it."""

    def __init__(self, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker], reads: dict[Var, _RowRead]) -> None:
        self.jaxpr = closed.jaxpr
        self.reads = reads
        self.markers = list(markers)
        self.values: dict[Var, Value] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.rows_of = {id(read): read for read in reads.values()}

    def closed(self) -> jex_core.ClosedJaxpr:
        """The new step."""

        def step() -> list[jax.Array]:
            for eqn in self.jaxpr.eqns:
                self._add(eqn)
            return [self._dense(var) for var in self.jaxpr.outvars]

        return jax.make_jaxpr(step)()

    def _add(self, eqn: JaxprEqn) -> None:
        name = eqn.primitive.name
        if name == MARKER and eqn.outvars and eqn.outvars[0] in self.reads:
            return  # rows are read at the first lookup, when the ids are known
        if name == LOOKUP:
            self.values[eqn.outvars[0]] = self._lookup(eqn)
        elif name == SPREAD:
            self.values[eqn.outvars[0]] = self._spread(eqn)
        elif name == "add_any" and (total := self._sum(eqn)) is not None:
            self.values[eqn.outvars[0]] = total
        elif name == MARKER and isinstance(marker := self.markers[eqn.params["number"]], UpdateMarker):
            self._update(eqn, marker)
        else:
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
        rows = rows.reshape(*_shape(ids), *rows.shape[1:])
        return zeros_for_padding(rows, self._dense(ids)) if read.is_padded(ids) else rows

    def _rows(self, read: _RowRead) -> list[jax.Array]:
        variable, number = read.variable, len(self.markers)
        self.markers.append(RowsMarker(variable, read.number, read.host_ids))
        outputs = (Aval((read.count, *variable.shape[1:]), variable.dtype), Aval((read.count,), "int32"))
        (marker,) = {eqn.primitive for eqn in self.jaxpr.eqns if eqn.primitive.name == MARKER}
        return list(marker.bind(*map(self._dense, read.sources), number=number, outputs=outputs))

    def _spread(self, eqn: JaxprEqn) -> Value:
        given, ids = eqn.invars
        shape = _shape(eqn.outvars[0])
        for read in self.rows_of.values():
            if ids in read.ids and read.values and read.variable.shape == shape and self._number(read) == eqn.params["number"]:
                return _RowGradient(read, [(self._dense(given), ids, self._dense(ids))])
        return plain_spread(self._dense(given), self._dense(ids), eqn.params["num_rows"], eqn.params["padded"])

    def _number(self, read: _RowRead) -> int:
        """By which number the lookups of a read know its variable."""
        return next(
            eqn.params["number"]
            for eqn in self.jaxpr.eqns
            if eqn.primitive.name == LOOKUP and self.reads.get(eqn.invars[0]) is read  # pyright: ignore[reportArgumentType]
        )

    def _sum(self, eqn: JaxprEqn) -> _RowGradient | None:
        first, second = (self.values.get(atom) if isinstance(atom, Var) else None for atom in eqn.invars)
        if isinstance(first, _RowGradient) and isinstance(second, _RowGradient) and first.read is second.read:
            return _RowGradient(first.read, [*first.parts, *second.parts])
        return None

    def _update(self, eqn: JaxprEqn, marker: UpdateMarker) -> None:
        """An update by an optimizer takes the gradients of rows as they are."""
        operands, reads = list[jax.Array](), list[int | None]()
        for variable, atom in zip(marker.variables, eqn.invars, strict=True):
            value = self.values.get(atom) if isinstance(atom, Var) else None
            if isinstance(value, _RowGradient) and not isinstance(marker.rule, str) and value.read.variable is variable:
                reads.append(value.read.number)
                operands.append(value.rows())
            else:
                reads.append(None)
                operands.append(self._dense(atom))
        if any(number is not None for number in reads):
            self.markers[eqn.params["number"]] = UpdateMarker(marker.rule, marker.variables, tuple(reads))
        eqn.primitive.bind(*operands, **eqn.params)

    def _dense(self, atom: Atom) -> Value:
        value = atom.val if isinstance(atom, jex_core.Literal) else self.values[atom]
        return value.dense() if isinstance(value, _RowGradient) else value
