"""`@function`: a step that is traced into a program, once for each signature.

A signature is the shape and dtype of every batch that the step takes and of every array that it is given; other
arguments (numbers, text, structures) are fixed into the program. The Python code of the step runs at tracing only.

Taught in lesson 00.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import jax
import jax.core
import numpy as np

from simdist.arguments import END_S, number, require_shallow
from simdist.errors import InvalidArgumentError
from simdist.program.collective import require_outside_of_inner_programs
from simdist.program.cutting import cut
from simdist.program.narrowing import require_numbers
from simdist.program.operations import Program, VariableHandle
from simdist.program.per_replica import PerReplica, ReplicaLocal, ReplicaLocalResult, spread
from simdist.program.tracing import Tracer, active_tracer
from simdist.program.values import aval_of, snapshot

__all__ = ["BoundCall", "StepFunction", "fits", "fits_at_once", "function"]


class TracedIterator:
    """Stands for an iterator argument while a step is traced.

    Args:
        distributed: whether each replica takes a part of each element.
    """

    def __init__(self, tracer: Tracer, number: int, distributed: bool = False) -> None:
        self.tracer = tracer
        self.number = number
        self.distributed = distributed

    def __iter__(self) -> TracedIterator:
        return self

    def __next__(self) -> Any:
        if self.distributed and self.tracer.in_replica:
            raise InvalidArgumentError(
                "next(iterator) of a distributed dataset was called inside strategy.run. Take the element outside, and pass it on: "
                "strategy.run(fn, args=(next(iterator),))."
            )
        batch = self.tracer.next_batch(self.number)
        return spread(batch) if self.distributed else batch

    get_next = __next__

    def get_next_as_optional(self) -> Any:
        """Refused: a program is written for steps that have their batches."""
        raise InvalidArgumentError(
            "get_next_as_optional() was called in a step, whose program is the same whether there is an element or not. Ask outside: "
            "optional = iterator.get_next_as_optional(), and give optional.get_value() to the step; or let the step end the dataset, "
            "which raises OutOfRangeError."
        )


@dataclass(frozen=True)
class ReplicaLocalSpec:
    """Says of an argument that each replica has its own; and of how many rows all of them are parts."""

    global_rows: int | None = None


@dataclass(frozen=True)
class BoundCall:
    """The arguments of one call, sorted: iterators, arrays, and all that is fixed.

    Attributes:
        own: for each leaf, None, or a `ReplicaLocalSpec` where it is the value of one replica and others have others.
        key: what must be equal for two calls to be able to share a program, batches apart.
    """

    structure: Any
    leaves: tuple[Any, ...]
    own: tuple[ReplicaLocalSpec | None, ...]
    iterators: tuple[Any, ...]
    arrays: tuple[Any, ...]
    key: tuple[Any, ...]


class StepFunction:
    """A step under ``@sd.function``. Calling it runs it under the strategy in scope."""

    run_here: Callable[[StepFunction, Sequence[Any], dict[str, Any]], Any] | None = None  # set by the strategies
    strategy: Any = None  # the one that it has turned to when it was called outside of every scope

    def __init__(self, fn: Callable[..., Any], seconds: float | None = None, name: str = "") -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.seconds = seconds
        self.name = name or getattr(fn, "__name__", "step")
        self.traces = 0
        self.made: list[Any] = []  # variables that the step's Python has made
        self._programs: dict[tuple[Any, ...], list[Program]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active_tracer() is not None:
            return self.fn(*args, **kwargs)
        assert StepFunction.run_here is not None
        return StepFunction.run_here(self, args, kwargs)

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any], resolve: Callable[[Any], Any] = lambda leaf: leaf) -> BoundCall:
        """Sort the arguments of a call; `resolve` replaces per-worker arguments by those of the worker."""
        require_shallow((tuple(args), dict(kwargs)), f"the arguments of {self.name}")
        given, structure = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
        leaves = [snapshot(resolve(leaf)) for leaf in given]
        own = tuple(
            [ReplicaLocalSpec(getattr(leaf, "global_rows", None)) if getattr(leaf, "is_per_replica", False) else None for leaf in given]
        )
        iterators = tuple(leaf for leaf in leaves if hasattr(leaf, "next_batch"))
        arrays = tuple(leaf for leaf in leaves if _is_array(leaf))
        for array in arrays:
            require_numbers(array.dtype.name, f"an argument of {self.name}")
        fixed = tuple(_fixed(leaf) for leaf in leaves)
        try:
            hash(fixed)
        except TypeError as error:
            raise InvalidArgumentError(
                f"{self.name} was given an argument that is neither an array, an iterator nor a hashable value: {error}. Pass arrays, "
                "numbers or text, or close over the object."
            ) from None
        return BoundCall(structure, tuple(leaves), own, iterators, arrays, (structure, own, fixed))

    def program(self, call: BoundCall, context: Any = None) -> Program:
        """The program of a call: one that was traced before with the same signature, or a new one.

        Args:
            call: the bound arguments.
            context: what else the trace depends on (the strategy).

        Raises:
            StopIteration: an iterator has not enough elements left for one step.
        """
        known = self._programs.setdefault((context, *call.key), [])
        for program in known:
            if fits(program, call):
                return program
        program = self.trace(call)
        known.append(program)
        return program

    def trace(
        self,
        call: BoundCall,
        rank: int = 0,
        num_replicas: int = 1,
        known_operands: Sequence[Any] = (),
        options: Any = None,
        shared: Sequence[bool] = (),
        reported_constants: list[Any] | None = None,
    ) -> Program:
        """Run the step's Python once, as a replica (see `Tracer`); the constants that the replica hands over go to `reported_constants`."""
        self.traces += 1
        tracer = Tracer(lambda iterator, position: call.iterators[iterator].peek(position), rank, num_replicas, known_operands, options)
        tracer.made = self.made
        tracer.shared, tracer.reported_constants = shared, reported_constants if reported_constants is not None else []
        kept = _Results()
        structures: list[Any] = []

        def step() -> list[Any]:
            arrays = iter(tracer.mark("argument", [], [aval_of(array) for array in call.arrays]) if call.arrays else [])
            numbers = iter(range(len(call.iterators)))
            leaves = [
                TracedIterator(tracer, next(numbers), own is not None)
                if hasattr(leaf, "next_batch")
                else _given(tracer, next(arrays) if _is_array(leaf) else leaf, own)
                for leaf, own in zip(call.leaves, call.own, strict=True)
            ]
            args, kwargs = jax.tree_util.tree_unflatten(call.structure, leaves)
            result = self.fn(*args, **kwargs)
            require_shallow(result, f"the results of {self.name}")
            results, structure = jax.tree_util.tree_flatten(result, is_leaf=lambda x: x is None)
            structures.append(structure)
            return kept.sort(results)

        closed = tracer.trace(step)
        if tracer.collectives:
            require_outside_of_inner_programs(closed.jaxpr)

        program = replace(
            cut(self.name, closed, tracer.markers, lambda arrays: jax.tree_util.tree_unflatten(structures[0], kept.put_back(arrays))),
            seconds=self.seconds,
            collectives=tuple(tracer.collectives),
            rank=rank if tracer.asked_rank else None,
        )
        return program


class _Results:
    """What a step returned, leaf by leaf: arrays come from the program, everything else is as it was at tracing."""

    def __init__(self) -> None:
        self.leaves: list[Any] = []

    def sort(self, results: Sequence[Any]) -> list[Any]:
        """Keep what is no array; give the arrays."""
        arrays: list[Any] = []
        for result in results:
            own = isinstance(result, PerReplica)
            parts, structure = jax.tree_util.tree_flatten(result.own) if isinstance(result, ReplicaLocal) else ([result], None)
            self.leaves.append((own, structure, [None if _is_array(part) else (part,) for part in parts]))
            arrays += [part for part in parts if _is_array(part)]
        return arrays

    def put_back(self, arrays: list[Any]) -> list[Any]:
        """The leaves, with these arrays; what is of one replica is a `ReplicaLocalResult`."""
        remaining = iter(arrays)
        leaves: list[Any] = []
        for own, structure, parts in self.leaves:
            values = [next(remaining) if part is None else part[0] for part in parts]
            value = values[0] if structure is None else jax.tree_util.tree_unflatten(structure, values)
            leaves.append(ReplicaLocalResult(value) if own else value)
        return leaves


def _fixed(leaf: Any) -> Any:
    """An argument in the key of a call: of an array its type, of a variable itself, whatever its value."""
    if hasattr(leaf, "next_batch"):
        return ("iterator",)
    if _is_array(leaf):
        return aval_of(leaf)
    return leaf.ref() if isinstance(leaf, VariableHandle) else leaf


def _given(tracer: Tracer, value: Any, own: ReplicaLocalSpec | None) -> Any:
    """An argument as the step's code sees it."""
    if own is None or tracer.num_replicas == 1:
        return value
    if own.global_rows is not None and getattr(value, "ndim", 0):
        tracer.global_rows[value.shape[0]] = own.global_rows
    tracer.is_rank_dependent = tracer.is_rank_dependent or not _is_array(value)
    return ReplicaLocal(tracer, value)


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray, np.generic, jax.core.Tracer))


def fits(program: Program, call: BoundCall) -> bool:
    """Whether the next batches of the call's iterators have the signatures that the program was traced with.

    Raises:
        StopIteration: an iterator has not enough elements left for one step.
    """
    taken: dict[int, int] = {}
    for iterator, signature in program.signatures:
        position = taken.get(iterator, 0)
        taken[iterator] = position + 1
        if call.iterators[iterator].peek(position).signature != signature:
            return False
    return True


def fits_at_once(program: Program, call: BoundCall) -> bool:
    """Whether the program fits the next batches, where that can be told without running any code of a user's pipeline; else False."""
    signatures = program.signatures
    if len(signatures) == 1:
        ((iterator, signature),) = signatures
        return call.iterators[iterator].next_is(signature)
    return not signatures


@overload
def function(fn: Callable[..., Any]) -> StepFunction: ...
@overload
def function(fn: None = None, *, seconds: float | None = None) -> Callable[[Callable[..., Any]], StepFunction]: ...
def function(fn: Callable[..., Any] | None = None, *, seconds: float | None = None) -> Any:
    """Make a step of a function: traced once for each signature, run wherever its strategy says.

    Args:
        fn: takes iterators, arrays and fixed values; may read and update variables, take batches by ``next(iterator)``, and
            return a structure of arrays.
        seconds: how long the computation of one step takes on a task's device (updates on servers apart), where that was
            measured or cannot be known from the program; default: from its operations and the device's figures.

    Returns:
        A `StepFunction`; with `seconds`, a decorator that makes one.

    Raises:
        TypeError: not a function, or `seconds` is no number.
        InvalidArgumentError: `seconds` is negative or not finite.

    Example:
        >>> import simdist as sd
        >>> v = sd.Variable(1.0, name="v")
        >>> @sd.function
        ... def double():
        ...     v.assign(v.value * 2.0)
        ...     return v.value
        >>> float(double())
        2.0
    """
    seconds = None if seconds is None else number(seconds, "seconds", below=END_S)
    if fn is None:
        return lambda fn: function(fn) if seconds is None else StepFunction(_callable(fn), seconds)
    return fn if isinstance(fn, StepFunction) else StepFunction(_callable(fn), seconds)


def _callable(fn: Any) -> Callable[..., Any]:
    if not callable(fn):
        raise TypeError(f"@sd.function takes a function; got {type(fn).__name__}.")
    return fn
