"""Programs whose first kernel is the step's own Python, run each time with values: what ``run_eagerly`` makes of a traced step.

Operations, shapes and prices are those of the traced program, so the schedule is the same. Only the first kernel, which computes all
that depends on what the step reads, takes and draws, is replaced by a `PythonCall` that plays the Python back
(`simdist.program.playback`). What is computed of the results of a collective, such as clipped sums of gradients, stays compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp

from simdist.errors import FailedPreconditionError
from simdist.process_state import active, active_context
from simdist.program.arrays import Array
from simdist.program.kernels import kernel_of
from simdist.program.operations import Argument, Check, Compute, Next, Operation, Program, RandomKey, Read, Register, Return, TracedCollective, Update
from simdist.program.playback import Playback, Source, other_course
from simdist.program.python_calls import PythonCall, bind_python
from simdist.program.tracing import Tracer
from simdist.program.values import Aval

__all__ = ["eager_program"]

Wanted = tuple[str, int, int]
"""A result of a playback: operand k of the n-th update or collective, or leaf k of what the step returns."""


def eager_program(program: Program, traced: Tracer, step: Callable[[Tracer], Sequence[Array]]) -> Program:
    """A program that runs the Python of its step each time.

    Args:
        program: the traced one.
        traced: the tracer of its trace.
        step: runs the Python under a tracer, and returns its results, flat.

    Raises:
        FailedPreconditionError: a later kernel uses values of the first one again, which the Python cannot give it.
    """
    position = next((n for n, op in enumerate(program.operations) if isinstance(op, Compute)), None)
    if position is None:
        return program
    kernel_op = program.operations[position]
    assert isinstance(kernel_op, Compute)
    sources = _sources(program.operations[:position])
    wanted = _wanted(program, kernel_op.outputs)
    inputs = (*kernel_op.inputs, *(register for register in sources if register not in kernel_op.inputs))
    outputs = [program.avals[register] for register in kernel_op.outputs]
    given = [(number, sources[register]) for number, register in enumerate(inputs) if register in sources]
    unknown = [register for register in kernel_op.inputs if register not in sources and register not in program.constants]
    if unknown:
        raise _needs_others(program.name)
    run = _Run(traced, step, given, [wanted[register] for register in kernel_op.outputs], outputs)
    call = PythonCall(run, outputs, kernel_op.kernel.closed)
    kernel = kernel_of(program.name, lambda *arrays: bind_python(call, arrays), [program.avals[register] for register in inputs])
    operations = list(program.operations)
    operations[position] = Compute(kernel, inputs, kernel_op.outputs)
    return replace(program, operations=tuple(operations))


def _sources(operations: Sequence[Operation]) -> dict[Register, Source]:
    """What the registers hold that are there before the first kernel."""
    found: dict[Register, Source] = {}
    taken: dict[int, int] = {}
    for op in operations:
        match op:
            case Next():
                number = taken[op.iterator] = taken.get(op.iterator, -1) + 1
                found.update((register, ("batch", (op.iterator, number), leaf)) for leaf, register in enumerate(op.outputs))
            case Argument():
                found.update((register, ("argument", None, leaf)) for leaf, register in enumerate(op.outputs))
            case Read():
                found[op.output] = "variable", op.variable.ref(), 0
            case RandomKey():
                found[op.output] = "key", op.salt, 0
            case _:
                pass
    return found


def _wanted(program: Program, outputs: Sequence[Register]) -> dict[Register, Wanted]:
    """Which result of a playback each result of the first kernel is.

    Raises:
        FailedPreconditionError: one is none.
    """
    found: dict[Register, Wanted] = {}
    updates = collectives = 0
    for op in program.operations:
        match op:
            case Update() | Check():
                operands = op.operands if isinstance(op, Update) else (op.operand,)
                for number, register in enumerate(operands):
                    found.setdefault(register, ("update", updates, number))
                updates += 1
            case TracedCollective():
                for number, register in enumerate(op.operands):
                    found.setdefault(register, ("collective", collectives, number))
                collectives += 1
            case Return():
                for number, register in enumerate(op.registers):
                    found.setdefault(register, ("result", number, 0))
            case _:
                pass
    if any(register not in found for register in outputs):
        raise _needs_others(program.name)
    return found


def _needs_others(name: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"run_eagerly=True: {name} computes with values of a replica again after it has got others, by a collective (synchronized batch "
        "normalization, a loss with masks) or by a read after an update. Its Python code cannot wait for them. Leave run_eagerly out, or use one "
        "replica; jax.debug.print prints values in a compiled step."
    )


class _Run:
    """One playback for each call.

    Args:
        traced, step: as of `eager_program`.
        given: the numbers of the inputs that a playback is given, with their sources.
        wanted: the results.
        outputs: their shapes and dtypes.
    """

    def __init__(
        self,
        traced: Tracer,
        step: Callable[[Tracer], Sequence[Array]],
        given: Sequence[tuple[int, Source]],
        wanted: Sequence[Wanted],
        outputs: Sequence[Aval],
    ) -> None:
        self.traced = traced
        self.step = step
        self.given = given
        self.wanted = wanted
        self.outputs = outputs
        self.context = active_context()

    def __call__(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        playback = Playback(self.traced, {source: arrays[number] for number, source in self.given})
        outer = active.context
        if outer is not self.context:
            self.context.replace(outer)
        try:
            results = playback.play(lambda: self.step(playback))
        finally:
            if outer is not self.context:
                outer.replace(self.context)
        return [self._found(playback, results, *which, aval) for which, aval in zip(self.wanted, self.outputs, strict=True)]

    def _found(self, playback: Playback, results: Sequence[Array], kind: str, number: int, operand: int, aval: Aval) -> jax.Array:
        of_kind = {"update": [operands for _, operands in playback.updates], "collective": playback.combined, "result": [[r] for r in results]}[kind]
        if number >= len(of_kind) or operand >= len(of_kind[number]):
            raise other_course(f"leaves out {kind} {number}")
        value = jnp.asarray(of_kind[number][operand])
        if value.shape != aval.shape:
            raise other_course(f"gives an array of shape {value.shape} where shape {aval.shape} was traced")
        return value.astype(aval.dtype)
