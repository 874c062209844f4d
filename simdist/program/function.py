"""`@function`: a step that is traced into a program, once for each signature.

A signature is the shape and dtype of every batch that the step takes and of every array that it is given; other
arguments (numbers, text, structures) are fixed into the program. The Python code of the step runs at tracing only.

Taught in lesson 00.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from types import FunctionType, MethodType
from typing import TypeVar, cast, overload

import jax
import numpy as np

from simdist.arguments import END_S, name_of_function, number, require_function, require_shallow
from simdist.caches import BoundedCache
from simdist.errors import FailedPreconditionError, SimdistError
from simdist.program.arrays import Array, Tree, TreeStructure, is_array, native
from simdist.program.bound_call import BoundCall, bound, bound_for_each, is_iterator
from simdist.program.collective import Collective, GradientOptions, require_outside_of_inner_programs
from simdist.program.cutting import cut
from simdist.program.eager_programs import eager_program, example_of
from simdist.program.explained_errors import explained, explaining_tracing, require_of_dataset
from simdist.program.joined_updates import with_joined_updates
from simdist.program.made_variables import MadeVariables
from simdist.program.markers import ArgumentMarker
from simdist.program.narrowing import kept_dtype, narrowed, require_numbers
from simdist.program.object_steps import ObjectSteps
from simdist.program.operations import Program, VariableHandle
from simdist.program.results import Results
from simdist.program.scope import Scope, current_scope
from simdist.program.taken_batches import TakenBatches, fits
from simdist.program.traced_again import TracedAgain
from simdist.program.traced_arguments import TracedIterator, given
from simdist.program.tracing import Tracer, active_tracer
from simdist.program.values import BundleType, aval_of

__all__ = [
    "BoundCall",
    "ProgramCache",
    "KEPT_SIGNATURES",
    "StepFunction",
    "function",
    "keep",
    "step_behind",
    "program_cache",
]

# Steps, and signatures of their arguments, whose programs a strategy keeps.
KEPT_SIGNATURES = 256
# Batches may have other shapes each time: so many kinds of them are kept for one signature of the arguments.
KEPT_BATCH_SHAPES = 256
# Of one step, by key of a call: one program for each signature of its batches.
ProgramCache = BoundedCache[tuple[Hashable, ...], list[Program]]
Traced = TypeVar("Traced")


def program_cache() -> ProgramCache:
    """Where the programs of a step are kept."""
    return BoundedCache(KEPT_SIGNATURES)


def keep(known: list[Traced], traced: Traced) -> None:
    """Add to what was traced for one signature of the arguments; of too many the oldest goes."""
    known.append(traced)
    del known[:-KEPT_BATCH_SHAPES]


class StepFunction:
    """A step under ``@sd.function``. Calling it runs it in the current scope.

    Attributes:
        owner: the scope of the variables that it uses, once that is known, where it is called outside of every scope.
        run_eagerly: whether its Python runs in each step, with values, and not at tracing only.
        only_creates: whether it is traced only for the variables that its Python makes, and not once more.
        counts: whether a call of it is a step of the program that uses the strategy; False where a strategy does something for itself.
        retraces_after: whether its Python, which has raised this error at tracing, goes otherwise if it is traced once more.
        examined_by: gets each program that is traced; of a step that runs eagerly, as it was traced.
        traces: how often it was traced, by itself or as a part of another step.
    """

    owner: Scope | None = None
    run_eagerly: bool = False
    only_creates: bool = False
    retraces_after: Callable[[Exception], bool] | None = None
    examined_by: Callable[[Program], object] | None = None

    def __init__(self, fn: Callable[..., Tree], seconds: float | None = None, name: str = "", counts: bool = True) -> None:
        # Attributes of an object that is called are its own: one of the name "owner" is not the scope of the step.
        functools.update_wrapper(self, fn, updated=("__dict__",) if isinstance(fn, (FunctionType, StepFunction)) else ())
        self.fn = fn
        self.seconds = seconds
        self.name = name or name_of_function(fn, "step")
        self.counts = counts
        self.traces = 0
        self.created_variables: list[VariableHandle] = []  # what each trace of its Python makes, by position
        self._programs = program_cache()
        self._of_objects: ObjectSteps[StepFunction] = ObjectSteps()

    def __get__(self, instance: object, owner: type | None = None) -> StepFunction:
        """The step of one object, where it is a method of its class: traced for that object alone."""
        if instance is None or not hasattr(self.fn, "__get__"):
            return self
        return self._of_objects.get(instance, lambda: self._of_object(instance, owner))

    def _of_object(self, instance: object, owner: type | None) -> StepFunction:
        method = StepFunction(self.fn.__get__(instance, owner), self.seconds, self.name, self.counts)
        method.run_eagerly = self.run_eagerly
        return method

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        tracer = active_tracer()
        if tracer is None:
            return current_scope().run_step(self, args, kwargs)
        if self.seconds is not None and not tracer.has_duration:
            raise FailedPreconditionError(
                f"{self.name} has seconds={self.seconds:g}, and is called inside another step, whose duration is of all that it computes. "
                f"Give seconds to that step, or let {self.name} be the step: call it, or give it to strategy.run, outside of every step."
            )
        self.traces += 1
        return self.fn(*args, **kwargs)

    def bind(self, args: Sequence[Tree], kwargs: dict[str, Tree], resolve: Callable[[Tree], Tree] = lambda leaf: leaf) -> BoundCall:
        """Sort the arguments of a call; `resolve` replaces per-worker arguments by those of the worker."""
        return bound(self.name, args, kwargs, resolve)

    def bind_for_each(self, args: Sequence[Tree], kwargs: dict[str, Tree], resolves: Sequence[Callable[[Tree], Tree]]) -> list[BoundCall]:
        """The same for several replicas, each of which has a `resolve` of its own."""
        return bound_for_each(self.name, args, kwargs, resolves)

    def program(self, call: BoundCall, cache: ProgramCache | None = None) -> Program:
        """The program of a call: one that was traced before with the same signature, or a new one.

        Args:
            call: the bound arguments.
            cache: what is kept of this step by what else the trace depends on, the strategy; None: the function's own.

        Raises:
            StopIteration: an iterator has not enough elements left for one step.
        """
        known = (self._programs if cache is None else cache).get(call.key, list)
        for program in known:
            if fits(program, call):
                return program
        program = self.trace(call)
        keep(known, program)
        return program

    def trace(
        self,
        call: BoundCall,
        rank: int = 0,
        num_replicas: int = 1,
        known_operands: Sequence[Sequence[BundleType]] = (),
        options: GradientOptions | None = None,
        shared: Sequence[bool] = (),
        reported_constants: list[object] | None = None,
        joint: Sequence[int | None] = (),
        reported_collectives: list[Collective] | None = None,
    ) -> Program:
        """Run the step's Python once, as a replica (see `Tracer`).

        The constants that it hands over go to `reported_constants`, its collectives to `reported_collectives`, also where the step fails.
        """
        constants = reported_constants if reported_constants is not None else []
        tracers: list[Tracer] = []

        def traced(has_example: bool) -> Program:
            batches = TakenBatches(call)
            tracer = Tracer(batches, rank, num_replicas, known_operands, options)
            tracers[:] = [tracer]
            tracer.created_variables, tracer.shared, tracer.reported_constants = self.created_variables, shared, constants
            tracer.joint_sizes = joint
            if reported_collectives is not None:
                reported_collectives.clear()
                tracer.collectives = reported_collectives
            tracer.has_duration = self.seconds is not None
            tracer.may_be_traced_again = True
            program = self._program_of(tracer, call, has_example)
            if not (batches.ended or tracer.looped or tracer.common_reads):
                return program
            ended, looped, common_reads = map(frozenset, (batches.ended, tracer.looped, tracer.common_reads))
            return replace(program, ended=ended, looped=looped, common_reads=common_reads)

        made = MadeVariables(self.name, self.created_variables)
        while True:
            self.traces += 1
            make = None
            try:
                program = self._traced(traced, constants, made)
                if self.only_creates or not made.is_repeated(tracers[-1].num_created):
                    return program
            except TracedAgain as needed:
                made.stopped()
                make = needed.make
            except BaseException as error:
                made.failed()
                if not isinstance(error, Exception) or self.retraces_after is None or not self.retraces_after(error):
                    raise
            constants.clear()
            if make is not None:
                make()

    def _traced(self, traced: Callable[[bool], Program], constants: list[object], created: MadeVariables) -> Program:
        """What `traced` gives; it is called with True where the Python of the step needs values."""
        if not self.run_eagerly:
            with explaining_tracing(self.name):
                return traced(False)
        try:
            return traced(False)
        except (SimdistError, StopIteration):
            raise
        except Exception:
            constants.clear()
            created.stopped()
            return traced(True)  # values decide what the Python of the step does, or it computes with them in numpy

    def _program_of(self, tracer: Tracer, call: BoundCall, has_example: bool) -> Program:
        kept = Results()
        structures: list[TreeStructure] = []
        example = example_of(call, tracer) if has_example else None
        closed = tracer.trace(lambda: self._results(call, tracer, kept, structures), example)
        if tracer.collectives:
            require_outside_of_inner_programs(closed.jaxpr)
        in_order = tracer.options is not None and tracer.options.in_order
        program = replace(
            cut(
                self.name,
                closed,
                tracer.markers,
                lambda arrays: jax.tree_util.tree_unflatten(structures[0], kept.put_back(arrays)),
                tracer.num_replicas,
                tracer.of_all,
                in_order,
            ),
            seconds=self.seconds,
            counts=self.counts,
            collectives=tuple(tracer.collectives),
            global_sizes=tuple(tracer.global_sizes),
            rank=tracer.replica_rank if tracer.asked_rank else None,
        )
        if self.examined_by is not None:
            self.examined_by(program)
        if self.run_eagerly:
            program = eager_program(program, tracer, lambda tracer: self._results(call, tracer, Results(), []), has_example)
        return program if in_order else with_joined_updates(program)

    def _results(self, call: BoundCall, tracer: Tracer, kept: Results, structures: list[TreeStructure]) -> list[Array]:
        """Run the step's Python; its arrays, flat. All else of what it returns goes to `kept`, and its structure to `structures`."""
        arrays = iter(tracer.mark(ArgumentMarker(), [], [aval_of(array) for array in call.arrays]) if call.arrays else [])
        numbers = iter(range(len(call.iterators)))
        leaves = [
            TracedIterator(tracer, next(numbers), own is not None)
            if is_iterator(leaf)
            else given(tracer, next(arrays) if is_array(leaf) else leaf, own)
            for leaf, own in zip(call.leaves, call.local_specs, strict=True)
        ]
        args, kwargs = jax.tree_util.tree_unflatten(call.structure, leaves)
        try:
            result = self.fn(*args, **kwargs)
        except StopIteration as error:
            require_of_dataset(error, self.name)
            raise
        except (TypeError, ValueError) as error:
            if (clearer := explained(error, self.name, args, kwargs)) is None:
                raise
            raise clearer from error
        require_shallow(result, f"the results of {self.name}")
        results, structure = jax.tree_util.tree_flatten(result, is_leaf=lambda x: x is None)
        structures.append(structure)
        found = list(map(native, kept.sort(results)))
        for array in found:
            require_numbers(array.dtype.name, f"a result of {self.name}")
            if isinstance(array, (np.ndarray, np.generic)):  # JAX would change numbers of 64 bits without a word
                narrowed(np.asarray(array), kept_dtype(array.dtype), f"a result of {self.name}")
        return found


@overload
def function(fn: Callable[..., Tree]) -> StepFunction: ...
@overload
def function(fn: None = None, *, seconds: float | None = None) -> Callable[[Callable[..., Tree]], StepFunction]: ...
def function(
    fn: Callable[..., Tree] | None = None, *, seconds: float | None = None
) -> StepFunction | Callable[[Callable[..., Tree]], StepFunction]:
    """Make a step of a function: it is traced once for each signature, and runs under its strategy.

    Args:
        fn: takes iterators, arrays and fixed values; may read and update variables, take batches by ``next(iterator)``, and
            return a structure of arrays; of a variable comes its value at the end of the step.
        seconds: the duration of the computation of one step on a task's device (without updates on servers), if it was
            measured or cannot be known from the program; default: from its operations and the device's figures. For a whole step only:
            inside another one, whose duration is its own, it is refused.

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
        return lambda fn: fn if isinstance(fn, StepFunction) and seconds is None else StepFunction(_callable(fn), seconds)
    return fn if isinstance(fn, StepFunction) else StepFunction(_callable(fn), seconds)


def step_behind(fn: Callable[..., object]) -> Callable[..., object]:
    """A function, or the step that it is: from Python 3.13 on, a class method is bound as any function is, also where it is a step.

    Example:
        >>> class Trainer:
        ...     @classmethod
        ...     @function
        ...     def step(cls):
        ...         return 2.0
        >>> type(step_behind(Trainer.step)).__name__, step_behind(print) is print
        ('StepFunction', True)
    """
    if isinstance(fn, MethodType) and isinstance(step := cast("object", fn.__func__), StepFunction):
        return step.__get__(fn.__self__, type(fn.__self__))
    return fn


def _callable(fn: Callable[..., Tree]) -> Callable[..., Tree]:
    require_function(fn, "@sd.function")
    return fn
