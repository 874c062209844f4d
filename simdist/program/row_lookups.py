"""Which reads of a traced step are reads of rows: those of whose value nothing but lookups is used, by ids that follow from the batch.

A step of several replicas reads the rows of all of them together. Then a replica gets its own rows and, for each, which one it is among
the rows of all replicas.

Taught in lesson 06.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import jax
from jax.extend import core as jex_core
from jax.extend.core import JaxprEqn, Var

from simdist.errors import DenseReadWarning
from simdist.program.jaxprs import Atom, aval_in, variables_in
from simdist.program.kernels import kernel_of
from simdist.program.lookups import LOOKUP
from simdist.program.markers import ArgumentMarker, Marker, NextMarker, ReadMarker
from simdist.program.operations import VariableHandle
from simdist.program.row_numbers import HostIds

__all__ = ["RowRead", "found_row_reads"]

MARKER = "simdist_marker"


@dataclass(eq=False)
class RowRead:
    """A read of rows.

    Attributes:
        number: among those of the step.
        ids: of each lookup, in order; those that are padded are known to `host_ids`.
        sources: what they are computed from.
        values: the rows [k, ...] and the positions [k] of the ids, once they stand in the new step; of several replicas also the positions
            [k] of the rows among those of all replicas.
    """

    variable: VariableHandle
    number: int
    ids: list[Atom]
    sources: list[Var]
    host_ids: HostIds
    values: list[jax.Array] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(_num_ids, self.ids))

    def is_padded(self, ids: Atom) -> bool:
        """Whether ids below 0 are padding in this lookup."""
        return self.host_ids.padded[self.ids.index(ids)]

    def at(self, ids: Atom) -> jax.Array:
        """The positions of the rows of one lookup."""
        before = sum(map(_num_ids, self.ids[: self.ids.index(ids)]))
        return self.values[1][before : before + _num_ids(ids)]


def _num_ids(ids: Atom) -> int:
    """How many ids a lookup has."""
    return prod(aval_in(ids).shape)


def found_row_reads(
    name: str, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker], num_replicas: int, of_all: Callable[[int], int]
) -> dict[Var, RowRead]:
    """The reads of rows of a step, by what the read gave of the whole variable.

    Args:
        name: of the step, for warnings.
        closed: its jaxpr.
        markers: what its markers stand for, by number.
        num_replicas: that take the step together.
        of_all: how many ids all of them have, by the number that this one has.
    """
    return _Finding(name, closed, markers, num_replicas, of_all).reads()


class _Finding:
    """Finds the reads of a step that may be reads of rows."""

    def __init__(
        self, name: str, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker], num_replicas: int, of_all: Callable[[int], int]
    ) -> None:
        self.name = name
        self.num_replicas = num_replicas
        self.of_all = of_all
        self.jaxpr = closed.jaxpr
        self.constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.markers = markers
        self.made_by: dict[Var, JaxprEqn] = {var: eqn for eqn in self.jaxpr.eqns for var in eqn.outvars}
        self.users: dict[Var, list[JaxprEqn]] = {}
        for eqn in self.jaxpr.eqns:
            for var in variables_in(eqn.invars):
                self.users.setdefault(var, []).append(eqn)

    def reads(self) -> dict[Var, RowRead]:
        """The reads of rows, by what the read gave of the whole variable."""
        found: dict[Var, RowRead] = {}
        results = set(variables_in(self.jaxpr.outvars))
        for eqn in self.jaxpr.eqns:
            marker = self._marker(eqn)
            if not isinstance(marker, ReadMarker) or not marker.variable.moves_rows or eqn.outvars[0] in results:
                continue
            read = self._read(eqn.outvars[0], marker.variable, len(found))
            if read is not None:
                found[eqn.outvars[0]] = read
        return found

    def _read(self, value: Var, variable: VariableHandle, number: int) -> RowRead | None:
        lookups = self.users.get(value, [])
        if not lookups or any(eqn.primitive.name != LOOKUP or value in eqn.invars[1:] for eqn in lookups):
            return None
        ids = list(dict.fromkeys(eqn.invars[1] for eqn in lookups))
        if self.of_all(sum(map(_num_ids, ids))) >= variable.shape[0]:
            return None  # the whole table is smaller
        if self.num_replicas == 1 and not all(map(_num_ids, ids)):
            return None  # a replica may have no part of a batch, but others have
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
        return RowRead(variable, number, ids, sources, HostIds(variable.name, variable.shape[0], kernel, padded))

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
