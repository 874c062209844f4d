"""`@function`: a step that is traced into a program, once for each signature.

A signature is the shape and dtype of every batch that the step takes and of every array that it is given; other
arguments (numbers, text, structures) are fixed into the program. The Python code of the step runs at tracing only.

Taught in lesson 00.
"""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import jax
import jax.core
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.cutting import cut
from simdist.program.operations import Program
from simdist.program.tracing import Tracer, active_tracer
from simdist.program.values import aval_of, snapshot

__all__ = ["BoundCall", "StepFunction", "fits_at_once", "function"]


class TracedIterator:
    """Stands for an iterator argument while a step is traced."""

    def __init__(self, tracer: Tracer, number: int) -> None:
        self.tracer = tracer
        self.number = number

    def __iter__(self) -> TracedIterator:
        return self

    def __next__(self) -> Any:
        return self.tracer.next_batch(self.number)

    get_next = __next__


@dataclass(frozen=True)
class BoundCall:
    """The arguments of one call, sorted: iterators, arrays, and all that is fixed.

    Attributes:
        key: what must be equal for two calls to be able to share a program, batches apart.
    """

    structure: Any
    leaves: tuple[Any, ...]
    iterators: tuple[Any, ...]
    arrays: tuple[Any, ...]
    key: tuple[Any, ...]


class StepFunction:
    """A step under ``@sd.function``. Calling it runs it under the strategy in scope."""

    run_here: Callable[[StepFunction, BoundCall], Any] | None = None  # set by the strategies

    def __init__(self, fn: Callable[..., Any], seconds: float | None = None) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.seconds = seconds
        self.name = getattr(fn, "__name__", "step")
        self.traces = 0
        self._programs: dict[tuple[Any, ...], list[Program]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active_tracer() is not None:
            return self.fn(*args, **kwargs)
        assert StepFunction.run_here is not None
        return StepFunction.run_here(self, self.bind(args, kwargs))

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any], resolve: Callable[[Any], Any] = lambda leaf: leaf) -> BoundCall:
        """Sort the arguments of a call; `resolve` replaces per-worker arguments by those of the worker."""
        leaves, structure = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
        leaves = [snapshot(resolve(leaf)) for leaf in leaves]
        iterators = tuple(leaf for leaf in leaves if hasattr(leaf, "next_batch"))
        arrays = tuple(leaf for leaf in leaves if _is_array(leaf))
        fixed = tuple(("iterator",) if hasattr(leaf, "next_batch") else aval_of(leaf) if _is_array(leaf) else leaf for leaf in leaves)
        try:
            hash(fixed)
        except TypeError as error:
            raise InvalidArgumentError(
                f"{self.name} was given an argument that is neither an array, an iterator nor a hashable value: {error}. Pass arrays, "
                "numbers or text, or close over the object."
            ) from None
        return BoundCall(structure, tuple(leaves), iterators, arrays, (structure, fixed))

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
            if _fits(program, call):
                return program
        self.traces += 1
        program = self._trace(call)
        known.append(program)
        _spare_the_collector()
        return program

    def _trace(self, call: BoundCall) -> Program:
        tracer = Tracer(lambda iterator, place: call.iterators[iterator].peek(place))
        fixed: list[Any] = []
        structures: list[Any] = []

        def step() -> list[Any]:
            arrays = iter(tracer.mark("argument", [], [aval_of(array) for array in call.arrays]) if call.arrays else [])
            numbers = iter(range(len(call.iterators)))
            leaves = [
                TracedIterator(tracer, next(numbers)) if hasattr(leaf, "next_batch") else next(arrays) if _is_array(leaf) else leaf
                for leaf in call.leaves
            ]
            args, kwargs = jax.tree_util.tree_unflatten(call.structure, leaves)
            results, structure = jax.tree_util.tree_flatten(self.fn(*args, **kwargs), is_leaf=lambda x: x is None)
            structures.append(structure)
            fixed.extend(None if _is_array(result) else (result,) for result in results)
            return [result for result in results if _is_array(result)]

        closed = tracer.trace(step)

        def rebuild(arrays: list[Any]) -> Any:
            remaining = iter(arrays)
            leaves = [next(remaining) if item is None else item[0] for item in fixed]
            return jax.tree_util.tree_unflatten(structures[0], leaves)

        return replace(cut(self.name, closed, tracer.markers, rebuild), seconds=self.seconds)


_spared: list[bool] = []


def _spare_the_collector() -> None:
    """Take the heap of JAX and Keras out of garbage collection, once: a full pass over it costs a tenth of a second."""
    if not _spared:
        _spared.append(True)
        gc.collect()
        gc.freeze()
        # A run makes many short-lived events; young objects are looked through ten times less often than by default.
        gc.set_threshold(max(50_000, gc.get_threshold()[0]), *gc.get_threshold()[1:])


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray, np.generic, jax.core.Tracer))


def _fits(program: Program, call: BoundCall) -> bool:
    """Whether the next batches of the call's iterators have the signatures that the program was traced with.

    Raises:
        StopIteration: an iterator has not enough elements left for one step.
    """
    taken: dict[int, int] = {}
    for iterator, signature in program.signatures:
        place = taken.get(iterator, 0)
        taken[iterator] = place + 1
        if call.iterators[iterator].peek(place).signature != signature:
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
        TypeError: not a function.
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
    if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
        raise InvalidArgumentError(f"seconds={seconds!r} must be a number of seconds, 0 or more.")
    if fn is None:
        return lambda fn: function(fn) if seconds is None else StepFunction(_callable(fn), seconds)
    return fn if isinstance(fn, StepFunction) else StepFunction(_callable(fn), seconds)


def _callable(fn: Any) -> Callable[..., Any]:
    if not callable(fn):
        raise TypeError(f"@sd.function takes a function; got {type(fn).__name__}.")
    return fn
