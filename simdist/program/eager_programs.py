"""Programs whose first kernel is the step's own Python, run each time with values: what ``run_eagerly`` makes of a traced step.

Operations, shapes and prices are those of the traced program, so the schedule is the same. Only the first kernel, which computes all
that depends on what the step reads, takes and draws, is replaced by a `PythonCall` that plays the Python back
(`simdist.program.playback`). What is computed of the results of a collective, such as clipped sums of gradients, stays compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from simdist.errors import FailedPreconditionError
from simdist.process_state import active, active_context
from simdist.program.arrays import Array, HostArray
from simdist.program.bound_call import BoundCall
from simdist.program.collective import Collective
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.markers import ArgumentMarker, KeyMarker, Marker, NextMarker, ReadMarker
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
    Reference,
    Register,
    Return,
    RuleHandle,
    TracedCollective,
    Update,
)
from simdist.program.playback import Playback, Source, other_course
from simdist.program.python_calls import PythonCall, bind_python
from simdist.program.row_numbers import RowNumbers
from simdist.program.traces import jaxpr_of
from simdist.program.tracing import Tracer
from simdist.program.values import Aval

__all__ = ["eager_program", "example_of"]

Wanted = tuple[str, int, int, int | None]
"""A result of a playback: operand k of the n-th update or collective, or leaf k of what the step returns; where only rows of it are wanted,
the number of the row read that says which."""


Found: TypeAlias = dict[str, Sequence[Sequence[Array]]]
"""The results of a playback, by kind."""


def example_of(call: BoundCall, tracer: Tracer) -> Callable[[Marker], Sequence[Array]]:
    """Values for the markers of a trace: the next batch, the present variables, and keys that stand for others.

    Args:
        call: the arguments of the step.
        tracer: of the trace.
    """

    def values(marker: Marker) -> Sequence[Array]:
        match marker:
            case NextMarker():
                return call.iterators[marker.iterator].peek(tracer.taken[marker.iterator] - 1).leaves()
            case ArgumentMarker():
                return call.arrays
            case ReadMarker():
                return [marker.variable.unseen_value()]
            case KeyMarker():
                return [np.array([0, marker.salt], np.uint32)]
            case _:
                return []

    return lambda marker: [jnp.asarray(value) for value in values(marker)]


def eager_program(program: Program, traced: Tracer, step: Callable[[Tracer], Sequence[Array]], has_example: bool) -> Program:
    """A program that runs the Python of its step each time.

    Args:
        program: the traced one.
        traced: the tracer of its trace.
        step: runs the Python under a tracer, and returns its results, flat.
        has_example: whether the Python had values while it was traced. Then constants may depend on them, too.

    Raises:
        FailedPreconditionError: a later kernel uses values of the first one again, which the Python cannot give it.
    """
    position = next((n for n, op in enumerate(program.operations) if isinstance(op, Compute)), None)
    if position is None:  # it computes with values alone, in Python, or with none
        position = next(n for n, op in enumerate(program.operations) if isinstance(op, (Update, TracedCollective, Check, Return)))
        nothing = Compute(kernel_of(program.name, lambda: list[jax.Array](), []), (), ())
        program = replace(program, operations=(*program.operations[:position], nothing, *program.operations[position:]))
    first = program.operations[position]
    assert isinstance(first, Compute)
    sources, wanted = _sources(program.operations[:position]), _wanted(program)
    unknown = [register for register in first.inputs if register not in sources and register not in program.constants]
    if unknown or any(register not in wanted for register in first.outputs):
        raise _needs_others(program.name)
    constants = {register: program.constants[register] for register in wanted if register in program.constants}
    later = {register for op in program.operations[position:] for register in _read_by(op)}
    loose = [register for register in constants if has_example and register in later]
    inputs = (*first.inputs, *(register for register in sources if register not in first.inputs))
    outputs = (*first.outputs, *loose)
    run = _PlayedStep(
        traced,
        step,
        [(number, sources[register]) for number, register in enumerate(inputs) if register in sources],
        [(wanted[register], program.avals[register]) for register in outputs],
        [_PlayedTable(op, [inputs.index(source) for source in op.sources]) for op in program.operations if isinstance(op, ReadRows)],
        [(wanted[register], np.asarray(value)) for register, value in constants.items() if register not in loose],
        _sums_of_rows(program),
    )
    kernel = _python_kernel(program, first, run, inputs, outputs)
    operations = list(program.operations)
    operations[position] = Compute(kernel, inputs, outputs)
    remaining = {register: value for register, value in program.constants.items() if register not in loose}
    return replace(program, operations=tuple(operations), constants=remaining)


def _python_kernel(program: Program, first: Compute, run: _PlayedStep, inputs: Sequence[Register], outputs: Sequence[Register]) -> Kernel:
    """The kernel that runs Python in the place of the first one."""
    avals = [program.avals[register] for register in inputs]
    traced = first.kernel.closed
    loose = [jnp.asarray(program.constants[register]) for register in outputs[len(first.outputs) :]]
    if loose:
        count = len(first.inputs)
        specs = [jax.ShapeDtypeStruct(aval.shape, jnp.dtype(aval.dtype)) for aval in avals[:count]]
        traced = jaxpr_of(lambda *arrays: [*first.kernel.function(*arrays), *loose], *specs)
    call = PythonCall(run, [program.avals[register] for register in outputs], traced)
    return kernel_of(program.name, lambda *arrays: bind_python(call, arrays), avals)


def _read_by(op: Operation) -> Sequence[Register]:
    match op:
        case Update():
            return op.operands
        case TracedCollective():
            return op.operands
        case Check():
            return (op.operand,)
        case Return():
            return op.registers
        case _:
            return ()


def _sources(operations: Sequence[Operation]) -> dict[Register, Source]:
    """What the registers hold that are there before the first kernel, as the step found it."""
    found: dict[Register, Source] = {}
    taken: dict[int, int] = {}
    changed: set[Reference] = set()
    applied: list[RuleHandle] = []
    for op in operations:
        match op:
            case Next():
                number = taken[op.iterator] = taken.get(op.iterator, -1) + 1
                found.update((register, ("batch", (op.iterator, number), leaf)) for leaf, register in enumerate(op.outputs))
            case Argument():
                found.update((register, ("argument", None, leaf)) for leaf, register in enumerate(op.outputs))
            case Read() if op.variable.ref() not in changed and not any(rule.changes(op.variable) for rule in applied):
                found[op.output] = "variable", op.variable.ref(), 0
            case Update():
                changed.update(handle.ref() for variable in op.variables for handle in (variable, *variable.overlapping()))
                applied += [] if isinstance(op.rule, str) else [op.rule]
            case RandomKey():
                found[op.output] = "key", op.salt, 0
            case ReadRows():
                found[op.outputs[0]] = "rows", op.number, 0
                found[op.outputs[1]] = "positions", op.number, 0
                found.update((register, ("joint", op.number, 0)) for register in op.outputs[2:])
            case _:
                pass
    return found


def _wanted(program: Program) -> dict[Register, Wanted]:
    """Which result of a playback each register is that some operation takes to the outside."""
    found: dict[Register, Wanted] = {}
    updates = collectives = 0
    for op in program.operations:
        match op:
            case Update() | Check():
                kind, number, updates = "update", updates, updates + 1
            case TracedCollective():
                kind, number, collectives = "collective", collectives, collectives + 1
            case _:
                kind, number = "result", 0
        row_reads = op.row_reads if isinstance(op, Update) else ()
        for operand, register in enumerate(_read_by(op)):
            found.setdefault(register, (kind, number, operand, row_reads[operand] if row_reads else None))
    return found


def _sums_of_rows(program: Program) -> dict[int, Collective]:
    """The collectives to which a replica gives ids and rows, by their numbers."""
    collectives = [op.collective for op in program.operations if isinstance(op, TracedCollective)]
    return {number: collective for number, collective in enumerate(collectives) if collective.gives_rows}


def _needs_others(name: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"run_eagerly=True: {name} computes with values of a replica again after it has got others, by a collective (synchronized batch "
        "normalization, a loss with masks) or by a read after an update. Its Python code cannot wait for them. Leave run_eagerly out, or "
        "use one replica; jax.debug.print prints values in a compiled step."
    )


class _PlayedStep:
    """One playback for each call.

    Args:
        traced, step: as of `eager_program`.
        given: the numbers of the inputs that a playback is given, with their sources.
        wanted: the results, with their shapes and dtypes.
        tables: of which rows are read, in the order of their numbers.
        constants: results that the program has as constants; a playback has to give the same.
        sums: the collectives that take ids and rows, by their numbers.
    """

    def __init__(
        self,
        traced: Tracer,
        step: Callable[[Tracer], Sequence[Array]],
        given: Sequence[tuple[int, Source]],
        wanted: Sequence[tuple[Wanted, Aval]],
        tables: Sequence[_PlayedTable],
        constants: Sequence[tuple[Wanted, HostArray]],
        sums: Mapping[int, Collective],
    ) -> None:
        self.traced = traced
        self.step = step
        self.given = given
        self.wanted = wanted
        self.tables = tables
        self.constants = constants
        self.sums = sums
        self.context = active_context()

    def __call__(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        values = {source: arrays[number] for number, source in self.given}
        numbers = {table.number: table.numbers(arrays) for table in self.tables}
        for table in self.tables:
            rows = values["rows", table.number, 0]
            values[table.source] = table.value(rows, numbers[table.number], values.get(table.source))
        playback = Playback(self.traced, values)
        outer = active.context
        if outer is not self.context:
            self.context.replace(outer)
        try:
            results = playback.play(lambda: self.step(playback))
        finally:
            if outer is not self.context:
                outer.replace(self.context)
        combined = [self._combined(number, operands, numbers, values) for number, operands in enumerate(playback.combined)]
        found: Found = {"update": playback.updates, "collective": combined, "result": [results]}
        for which, constant in self.constants:
            if not np.array_equal(np.asarray(_at(found, which)), constant, equal_nan=constant.dtype.kind == "f"):
                raise other_course("assigns or returns a number that it computes in Python from something else than values of the step")
        return [
            _as_traced(_at(found, which) if which[3] is None else _rows_of(_at(found, which), numbers[which[3]]), aval)
            for which, aval in self.wanted
        ]

    def _combined(
        self, number: int, operands: Sequence[Array], numbers: Mapping[int, RowNumbers], values: Mapping[Source, jax.Array]
    ) -> Sequence[Array]:
        """What a replica gives to a collective; a playback has dense gradients."""
        collective = self.sums.get(number)
        if collective is None:
            return operands
        if collective.row_read is None:
            return _ids_and_rows(operands[0], collective.operands[0].shape[0])
        return [values["joint", collective.row_read, 0], _rows_of(operands[0], numbers[collective.row_read])]


class _PlayedTable:
    """A table of which a step reads rows, as the Python of the step sees it: what was not read is no number.

    Args:
        op: reads the rows.
        inputs: the numbers of the kernel's inputs that the ids are computed from.
    """

    def __init__(self, op: ReadRows, inputs: Sequence[int]) -> None:
        self.number = op.number
        self.source: Source = ("variable", op.variable.ref(), 0)
        self._op = op
        self._inputs = inputs

    def numbers(self, arrays: Sequence[jax.Array]) -> RowNumbers:
        """Which rows a step has read."""
        return self._op.ids.numbers([np.asarray(arrays[number]) for number in self._inputs])

    def value(self, rows: jax.Array, numbers: RowNumbers, before: jax.Array | None) -> jax.Array:
        """The whole table [n, ...], of the rows [k, ...] that were read, and of those that other reads of it have given before."""
        table = np.full(self._op.variable.shape, np.nan, rows.dtype) if before is None else np.array(before)
        table[numbers.unique[: numbers.count]] = np.asarray(rows)[: numbers.count]
        return jnp.asarray(table)


def _rows_of(gradient: Array, numbers: RowNumbers) -> HostArray:
    """Of the gradient of a table [n, ...] the rows that were read [k, ...], then zeros."""
    rows = np.zeros((len(numbers.unique), *gradient.shape[1:]), gradient.dtype)
    rows[: numbers.count] = np.asarray(gradient)[numbers.unique[: numbers.count]]
    return rows


def _ids_and_rows(gradient: Array, num_ids: int) -> list[Array]:
    """The ids [k] and the rows [k, ...] of a dense gradient [n, ...] that k lookups have made: those that are not zero, then zeros."""
    dense = np.asarray(gradient)
    nonzero = np.flatnonzero((dense != 0).reshape(len(dense), -1).any(axis=1))
    ids, rows = np.zeros(num_ids, np.int32), np.zeros((num_ids, *dense.shape[1:]), dense.dtype)
    ids[: len(nonzero)], rows[: len(nonzero)] = nonzero, dense[nonzero]
    return [ids, rows]


def _at(found: Found, which: Wanted) -> Array:
    kind, number, operand, _ = which
    if number >= len(found[kind]) or operand >= len(found[kind][number]):
        raise other_course(f"makes fewer than {number + 1} {kind}s")
    return found[kind][number][operand]


def _as_traced(value: Array, aval: Aval) -> jax.Array:
    if tuple(value.shape) != aval.shape:
        raise other_course(f"gives an array of shape {tuple(value.shape)} where {aval} was traced")
    return jnp.asarray(value).astype(aval.dtype)
