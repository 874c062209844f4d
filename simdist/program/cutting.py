"""Cutting: a traced step becomes a program where its jaxpr is cut at the markers.

Every equation and every marker gets a *stage*. Stage s first does its markers (batches, reads, updates, collectives) and
then its pure equations, as one kernel. An equation belongs to the latest stage of its inputs; a marker that needs the
result of an equation of stage s belongs to stage s + 1; an update comes after earlier updates, and a read after the
updates of its variable, or by a rule that keeps it. Where replicas wait for each other at updates, too, updates and collectives keep the
order in which they were traced, whatever each of them needs. Equations that need nothing (constants, iotas) are repeated in each stage
that uses them, so that ten equal steps give ten equal kernels. An equation that does more than to give results (``jax.debug.print``) is
computed once, whether or not they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from jax.extend import core as jex_core
from jax.extend.core import JaxprEqn, Var

from simdist.program.arrays import ArrayLike
from simdist.program.collective import COLLECTIVE
from simdist.program.dead_reads import without_dead_reads
from simdist.program.jaxprs import Atom, aval_in, variables_in
from simdist.program.kernels import kernel_of
from simdist.program.markers import ArgumentMarker, CheckMarker, KeyMarker, Marker, NextMarker, ReadMarker, RowsMarker, UpdateMarker
from simdist.program.narrowing import require_numbers
from simdist.program.operations import (
    Argument,
    Check,
    Compute,
    Next,
    Operation,
    Program,
    RandomKey,
    Read,
    ReadRows,
    Rebuild,
    Register,
    Return,
    RuleHandle,
    TracedCollective,
    Update,
)
from simdist.program.row_reads import with_row_reads
from simdist.program.values import Aval

__all__ = ["cut"]

MARKER = "simdist_marker"
MARKERS = (MARKER, COLLECTIVE)


def cut(
    name: str,
    closed: jex_core.ClosedJaxpr,
    markers: Sequence[Marker],
    rebuild: Rebuild,
    num_replicas: int = 1,
    of_all: Callable[[int], int] = lambda count: count,
    in_order: bool = False,
) -> Program:
    """Make the program of a traced step.

    Args:
        name: of the step function.
        closed: its jaxpr, markers included.
        markers: what each marker stands for, by number.
        rebuild: puts the flat results back into the structure that the step returned.
        num_replicas: that take the step together.
        of_all: how many ids all replicas have together, by the number that this one has.
        in_order: whether updates and collectives keep the order in which they were traced.
    """
    closed, markers = with_row_reads(name, closed, markers, num_replicas, of_all)
    return _Cutter(name, without_dead_reads(closed, markers, MARKER), markers, in_order).program(rebuild)


class _Cutter:
    def __init__(self, name: str, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker], in_order: bool) -> None:
        self.name = name
        self.jaxpr = closed.jaxpr
        self.markers = markers
        self.in_order = in_order
        self.stage: dict[Var, int] = {}  # of variables that depend on a marker; others are free
        self.producer: dict[Var, JaxprEqn] = {}  # pure equations only
        self.order = {id(eqn): number for number, eqn in enumerate(self.jaxpr.eqns)}
        self.marker_stage: dict[int, int] = {}
        self.effect_stage: dict[int, int] = {}  # of equations with effects
        self.registers: dict[Var, Register] = {}
        self.avals: dict[Register, Aval] = {}
        self.constants: dict[Register, ArrayLike] = {}
        for var, value in zip(self.jaxpr.constvars, closed.consts, strict=True):
            self.constants[self._register(var)] = value
        self._find_stages()

    def program(self, rebuild: Rebuild) -> Program:
        by_stage, effects = dict[int, list[JaxprEqn]](), dict[int, list[JaxprEqn]]()
        for eqn in self.jaxpr.eqns:
            if eqn.primitive.name in MARKERS:
                by_stage.setdefault(self.marker_stage[id(eqn)], []).append(eqn)
            elif id(eqn) in self.effect_stage:
                effects.setdefault(self.effect_stage[id(eqn)], []).append(eqn)
        wanted = self._wanted()
        results = [self._result(var) for var in self.jaxpr.outvars]
        operations: list[Operation] = []
        last = max([*by_stage, *self.stage.values(), *self.effect_stage.values(), 0])
        for stage in range(last + 1):
            operations += [self._operation(eqn) for eqn in by_stage.get(stage, [])]
            operations += self._compute(stage, wanted.get(stage, []), effects.get(stage, []))
        operations.append(Return(tuple(results), rebuild))
        return Program(self.name, tuple(operations), self.constants, self.avals)

    # -- stages ---------------------------------------------------------------------------------------------------

    def _find_stages(self) -> None:
        last_update, last_collective, updated = 0, 0, dict[int, int]()
        applied: list[tuple[RuleHandle, int]] = []
        for eqn in self.jaxpr.eqns:
            operands = variables_in(eqn.invars)
            if eqn.primitive.name not in MARKERS:
                known = [self.stage[v] for v in operands if v in self.stage]
                if eqn.effects:
                    known = [self.effect_stage.setdefault(id(eqn), max(known, default=0))]
                for var in eqn.outvars:
                    self.producer[var] = eqn
                    if known:
                        self.stage[var] = max(known)
                continue
            stage = max((self.stage.get(v, 0) + (v in self.producer) for v in operands), default=0)
            marker = self._marker(eqn)
            if marker is None:
                # Collectives run in the order in which they were traced, whatever else each replica does.
                stage = last_collective = max(stage, last_collective, last_update if self.in_order else 0)
            elif isinstance(marker, (ReadMarker, RowsMarker)):
                by_rules = [at for rule, at in applied if rule.changes(marker.variable)]
                stage = max(updated.get(id(marker.variable), 0), *by_rules, 0)
            elif isinstance(marker, (UpdateMarker, CheckMarker)):
                stage = last_update = max(stage, last_update, last_collective if self.in_order else 0)
                if isinstance(marker, UpdateMarker):
                    changed = [handle for variable in marker.variables for handle in (variable, *variable.overlapping())]
                    updated.update((id(handle), stage) for handle in changed)
                    applied += [] if isinstance(marker.rule, str) else [(marker.rule, stage)]
            self.marker_stage[id(eqn)] = stage
            for var in eqn.outvars:
                self.stage[var] = stage

    def _marker(self, eqn: JaxprEqn) -> Marker | None:
        """The operation of a marker; None for a collective, which has its own."""
        return None if eqn.primitive.name == COLLECTIVE else self.markers[eqn.params["number"]]

    # -- kernels --------------------------------------------------------------------------------------------------

    def _compute(self, stage: int, wanted: list[Var], effects: list[JaxprEqn]) -> list[Operation]:
        """The kernel of a stage, if any of its results is used, or it has an effect."""
        if not wanted and not effects:
            return []
        eqns, inputs = self._slice(stage, wanted, effects)
        # Equations keep where they come from, so that what goes wrong in a kernel names the user's line.
        part = self.jaxpr.replace(constvars=[], invars=inputs, outvars=wanted, eqns=eqns)
        kernel = kernel_of(self.name, jex_core.jaxpr_as_fun(jex_core.ClosedJaxpr(part, [])), [aval_in(v) for v in inputs])
        return [Compute(kernel, tuple(map(self._register, inputs)), tuple(map(self._register, wanted)))]

    def _wanted(self) -> dict[int, list[Var]]:
        """By stage the results that markers, later stages or the result use, in order of equations: of all stages in one walk."""
        used = set(variables_in(self.jaxpr.outvars))
        last_use: dict[Var, int] = {}  # the last stage that computes with a result
        for eqn in self.jaxpr.eqns:
            operands = variables_in(eqn.invars)
            if eqn.primitive.name in MARKERS:
                used.update(operands)
                continue
            made_at = max((self.stage.get(v, 0) for v in eqn.outvars), default=self.effect_stage.get(id(eqn), 0))
            last_use.update((v, max(made_at, last_use.get(v, 0))) for v in operands if v in self.stage)
        wanted: dict[int, list[Var]] = {}
        for var in self.producer:
            stage = self.stage.get(var, 0)
            if var in used or last_use.get(var, 0) > stage:
                wanted.setdefault(stage, []).append(var)
        return wanted

    def _slice(self, stage: int, wanted: list[Var], effects: list[JaxprEqn]) -> tuple[list[JaxprEqn], list[Var]]:
        """The equations that `wanted` needs from this stage, those with effects, and what they need from outside."""
        needed, inputs = {self.order[id(eqn)] for eqn in effects}, dict[Var, None]()
        stack: list[Atom] = list(reversed([*wanted, *(var for eqn in effects for var in eqn.invars)]))
        seen: set[Var] = set()
        while stack:
            var = stack.pop()
            if isinstance(var, jex_core.Literal) or var in seen:
                continue
            seen.add(var)
            if var in self.producer and self.stage.get(var, stage) == stage:
                eqn = self.producer[var]
                needed.add(self.order[id(eqn)])
                stack.extend(reversed(eqn.invars))
            else:
                inputs[var] = None
        return [self.jaxpr.eqns[number] for number in sorted(needed)], list(inputs)

    # -- operations -----------------------------------------------------------------------------------------------

    def _operation(self, eqn: JaxprEqn) -> Operation:
        operands, outputs = tuple(self._result(v) for v in eqn.invars), tuple(map(self._register, eqn.outvars))
        marker = self._marker(eqn)
        if marker is None:
            return TracedCollective(eqn.params["collective"], operands, outputs)
        match marker:
            case NextMarker():
                return Next(marker.iterator, marker.signature, outputs)
            case ArgumentMarker():
                return Argument(outputs)
            case ReadMarker():
                return Read(marker.variable, outputs[0])
            case RowsMarker():
                return ReadRows(marker.variable, marker.number, marker.ids, operands, outputs)
            case KeyMarker():
                return RandomKey(marker.salt, outputs[0])
            case UpdateMarker():
                return Update(marker.rule, marker.variables, operands, marker.row_reads)
            case CheckMarker():
                return Check(marker.message, operands[0])
            case _:
                assert_never(marker)

    def _result(self, var: Atom) -> Register:
        if isinstance(var, jex_core.Literal):
            register = self._new(aval_in(var))
            self.constants[register] = var.val
            return register
        return self._register(var)

    def _register(self, var: Var) -> Register:
        if var not in self.registers:
            self.registers[var] = self._new(aval_in(var))
        return self.registers[var]

    def _new(self, aval: Aval) -> Register:
        require_numbers(aval.dtype, f"a result or an intermediate value of {self.name}")
        self.avals[len(self.avals)] = aval
        return len(self.avals) - 1
