"""From a traced step to a program: the jaxpr is cut at its markers.

Every equation and every marker gets a *stage*. Stage s first does its markers (batches, reads, updates, collectives) and
then its pure equations, as one kernel. An equation belongs to the latest stage of its inputs; a marker that needs the
result of an equation of stage s belongs to stage s + 1; an update comes after earlier updates, and a read after the
updates of its variable. Equations that need nothing (constants, iotas) are repeated in each stage that uses them, so
that ten equal steps give ten equal kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend import core as jex_core

from simdist.program.collective import COLLECTIVE
from simdist.program.kernels import kernel_of
from simdist.program.operations import (
    Argument,
    Check,
    Compute,
    Next,
    Operation,
    Program,
    RandomKey,
    Read,
    Register,
    Return,
    TracedCollective,
    Update,
)
from simdist.program.tracing import Marker
from simdist.program.values import Aval

__all__ = ["cut"]

Var = Any
MARKERS = ("simdist_marker", COLLECTIVE)


def cut(name: str, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker], rebuild: Callable[[list[Any]], Any]) -> Program:
    """Make the program of a traced step.

    Args:
        name: of the step function.
        closed: its jaxpr, markers included.
        markers: what each marker stands for, by number.
        rebuild: puts the flat results back into the structure that the step returned.
    """
    return _Cutter(name, closed, markers).program(rebuild)


class _Cutter:
    def __init__(self, name: str, closed: jex_core.ClosedJaxpr, markers: Sequence[Marker]) -> None:
        self.name = name
        self.jaxpr = closed.jaxpr
        self.markers = markers
        self.stage: dict[Var, int] = {}  # of variables that depend on a marker; others are free
        self.producer: dict[Var, Any] = {}  # pure equations only
        self.marker_stage: dict[int, int] = {}
        self.registers: dict[Var, Register] = {}
        self.avals: dict[Register, Aval] = {}
        self.constants: dict[Register, Any] = {}
        for var, value in zip(self.jaxpr.constvars, closed.consts, strict=True):
            self.constants[self._register(var)] = value
        self._find_stages()

    def program(self, rebuild: Callable[[list[Any]], Any]) -> Program:
        by_stage: dict[int, list[Any]] = {}
        for eqn in self.jaxpr.eqns:
            if eqn.primitive.name in MARKERS:
                by_stage.setdefault(self.marker_stage[id(eqn)], []).append(eqn)
        results = [self._result(var) for var in self.jaxpr.outvars]
        operations: list[Operation] = []
        last = max([*by_stage, *self.stage.values(), 0])
        for stage in range(last + 1):
            operations += [self._operation(eqn) for eqn in by_stage.get(stage, [])]
            operations += self._compute(stage, by_stage)
        operations.append(Return(tuple(results), rebuild))
        return Program(self.name, tuple(operations), self.constants, self.avals)

    # -- stages ---------------------------------------------------------------------------------------------------

    def _find_stages(self) -> None:
        last_update, last_collective, updated = 0, 0, dict[int, int]()
        for eqn in self.jaxpr.eqns:
            operands = [v for v in eqn.invars if not isinstance(v, jex_core.Literal)]
            if eqn.primitive.name not in MARKERS:
                known = [self.stage[v] for v in operands if v in self.stage]
                for var in eqn.outvars:
                    self.producer[var] = eqn
                    if known:
                        self.stage[var] = max(known)
                continue
            stage = max((self.stage.get(v, 0) + (v in self.producer) for v in operands), default=0)
            marker = self._marker(eqn)
            if marker is None:
                # Replicas meet in the order that they wrote down, whatever else each of them does.
                stage = last_collective = max(stage, last_collective)
            elif marker.kind == "read":
                stage = updated.get(id(marker.details["variable"]), 0)
            elif marker.kind in ("update", "check"):
                stage = last_update = max(stage, last_update)
                for variable in marker.details.get("variables", ()):
                    updated[id(variable)] = stage
            self.marker_stage[id(eqn)] = stage
            for var in eqn.outvars:
                self.stage[var] = stage

    def _marker(self, eqn: Any) -> Marker | None:
        """What a marker stands for; None for a collective, which says so itself."""
        return None if eqn.primitive.name == COLLECTIVE else self.markers[eqn.params["number"]]

    # -- kernels --------------------------------------------------------------------------------------------------

    def _compute(self, stage: int, by_stage: dict[int, list[Any]]) -> list[Operation]:
        """The kernel of a stage, if it has anything to compute that somebody uses."""
        wanted = self._wanted(stage, by_stage)
        if not wanted:
            return []
        eqns, inputs = self._slice(stage, wanted)
        kernel = kernel_of(self.name, _evaluator(eqns, inputs, wanted), [_aval(v) for v in inputs])
        return [Compute(kernel, tuple(map(self._register, inputs)), tuple(map(self._register, wanted)))]

    def _wanted(self, stage: int, by_stage: dict[int, list[Any]]) -> list[Var]:
        """What this stage's equations make for markers, for later stages and for the result, in order of equations."""
        used: set[Var] = set()
        for eqns in by_stage.values():
            used.update(v for eqn in eqns for v in eqn.invars if not isinstance(v, jex_core.Literal))
        used.update(v for v in self.jaxpr.outvars if not isinstance(v, jex_core.Literal))
        for eqn in self.jaxpr.eqns:
            if eqn.primitive.name not in MARKERS and max((self.stage.get(v, 0) for v in eqn.outvars), default=0) > stage:
                used.update(v for v in eqn.invars if not isinstance(v, jex_core.Literal) and v in self.stage)
        return [v for v in self.producer if v in used and self.stage.get(v, 0) == stage]

    def _slice(self, stage: int, wanted: list[Var]) -> tuple[list[Any], list[Var]]:
        """The equations that `wanted` needs from this stage, and what they need from outside."""
        needed, inputs = dict[int, None](), dict[Var, None]()
        stack = list(reversed(wanted))
        seen: set[Var] = set()
        while stack:
            var = stack.pop()
            if isinstance(var, jex_core.Literal) or var in seen:
                continue
            seen.add(var)
            if var in self.producer and self.stage.get(var, stage) == stage:
                eqn = self.producer[var]
                needed[id(eqn)] = None
                stack.extend(reversed(eqn.invars))
            else:
                inputs[var] = None
        return [eqn for eqn in self.jaxpr.eqns if id(eqn) in needed], list(inputs)

    # -- operations -----------------------------------------------------------------------------------------------

    def _operation(self, eqn: Any) -> Operation:
        operands, outputs = tuple(self._result(v) for v in eqn.invars), tuple(map(self._register, eqn.outvars))
        marker = self._marker(eqn)
        if marker is None:
            return TracedCollective(eqn.params["collective"], operands, outputs)
        details = marker.details
        match marker.kind:
            case "next":
                return Next(details["iterator"], details["signature"], outputs)
            case "argument":
                return Argument(outputs)
            case "read":
                return Read(details["variable"], outputs[0])
            case "key":
                return RandomKey(details["salt"], outputs[0])
            case "update":
                return Update(details["rule"], details["variables"], operands)
            case "check":
                return Check(details["message"], operands[0])
            case kind:
                raise AssertionError(f"unknown marker {kind!r}")

    def _result(self, var: Var) -> Register:
        if isinstance(var, jex_core.Literal):
            register = self._new(_aval(var))
            self.constants[register] = var.val
            return register
        return self._register(var)

    def _register(self, var: Var) -> Register:
        if var not in self.registers:
            self.registers[var] = self._new(_aval(var))
        return self.registers[var]

    def _new(self, aval: Aval) -> Register:
        self.avals[len(self.avals)] = aval
        return len(self.avals) - 1


def _aval(var: Var) -> Aval:
    return Aval(tuple(var.aval.shape), str(var.aval.dtype))


def _evaluator(eqns: list[Any], inputs: list[Var], outputs: list[Var]) -> Callable[..., list[Any]]:
    def run(*arrays: Any) -> list[Any]:
        values = dict(zip(inputs, arrays, strict=True))

        def value(var: Var) -> Any:
            return var.val if isinstance(var, jex_core.Literal) else values[var]

        for eqn in eqns:
            result = _bind(eqn, [value(var) for var in eqn.invars])
            values.update(zip(eqn.outvars, result if eqn.primitive.multiple_results else [result], strict=True))
        return [value(var) for var in outputs]

    return run


def _bind(eqn: Any, arrays: list[Any]) -> Any:
    """Run one equation. JAX before 0.10 gives the inner functions apart from the parameters."""
    params = eqn.primitive.get_bind_params(eqn.params)
    functions, params = params if isinstance(params, tuple) else ((), params)
    return eqn.primitive.bind(*functions, *arrays, **params)
