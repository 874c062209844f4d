"""Tracing: running a step's Python once, and writing down what it would do.

While a step is traced, everything that touches the outside (take a batch, read a variable, update it, combine replicas)
binds one marker primitive in the outermost trace, wherever in the step it happens: inside `jax.grad`, a scan or a Keras
layer. The traced jaxpr therefore holds pure equations and markers; `simdist.program.cutting` cuts it at the markers.

Invariants: operands of a marker are values of the outermost trace (an assignment from inside a `cond` or `scan` body is
an error that says so); a marker's place among the markers is its place in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import jax
import jax.core
from jax.extend import core as jex_core

from simdist.errors import InvalidArgumentError
from simdist.program.collective import Collective, bind_collective
from simdist.program.narrowing import require_numbers
from simdist.program.operations import VariableHandle
from simdist.program.values import Aval, aval_of

__all__ = ["Marker", "Tracer", "active_tracer", "guards", "is_under_a_trace"]

_marker = jex_core.Primitive("simdist_marker")
_marker.multiple_results = True


@_marker.def_abstract_eval
def _marker_avals(*_: Any, outputs: tuple[Aval, ...], **__: Any) -> list[Any]:
    return [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in outputs]


_tracers: list[Tracer] = []
# Entered around each trace; Keras registers what refuses variables that belong to no strategy.
guards: list[Callable[[], AbstractContextManager[Any]]] = []


class Marker:
    """One thing that a step does to the outside, with what is needed to make its operation."""

    def __init__(self, kind: str, **details: Any) -> None:
        self.kind = kind
        self.details = details


class Tracer:
    """Collects the markers of one step, as one of its replicas runs it.

    Args:
        batch_of: gives the batch with a number of the iterator that is argument number i, without consuming it.
        rank: the replica whose place is taken; what it traces holds for all of its kind unless it asks for `rank`.
        num_replicas: how many take the step together.
        known_operands: what each replica gives to each collective, where that is known from an earlier trace: avals by exchange and rank.
        options: what the strategy wants of the collective of gradients.

    Attributes:
        collectives: what the replica meets the others for, in order.
        asked_rank: whether the step asked which replica it is.
        is_rank_dependent: whether it has something fixed, no array, that other replicas have not: its rank, or its own argument.
        only_finite: whether assignments leave a variable as it is where they are no numbers: a mean over no rows.
        in_replica: whether code runs for one replica (inside `strategy.run`), or across them.
        global_rows: rows of all replicas' parts of the batches taken, by the rows of this replica's part.
        reported_constants: constants that the replica has handed to code across the replicas, in order.
        shared: which of these all replicas are known to have alike.
        made: the variables that the step has made, whichever replica was traced first.
    """

    def __init__(
        self,
        batch_of: Callable[[int, int], Any] | None = None,
        rank: int = 0,
        num_replicas: int = 1,
        known_operands: Sequence[Sequence[tuple[Aval, ...]]] = (),
        options: Any = None,
    ) -> None:
        self.markers: list[Marker] = []
        self.batch_of = batch_of
        self.taken: dict[int, int] = {}
        self.overlays: list[Overlay] = []
        self.seeds: dict[int, Any] = {}
        self._rank = rank
        self.num_replicas = num_replicas
        self.known_operands = known_operands
        self.options = options
        self.collectives: list[Collective] = []
        self.asked_rank = self.is_rank_dependent = False
        self.in_replica = self.only_finite = False
        self.global_rows: dict[int, int] = {}
        self.shared: Sequence[bool] = ()
        self.reported_constants: list[Any] = []
        self.made: list[Any] = []
        self._num_made = 0
        self._outer: Any = None

    # -- the trace itself -----------------------------------------------------------------------------------------

    def trace(self, step: Callable[[], Sequence[Any]]) -> jex_core.ClosedJaxpr:
        """Run `step`, which returns a flat list of arrays; return its jaxpr with the markers in it."""

        def outermost() -> Sequence[Any]:
            with jex_core.take_current_trace() as self._outer:
                pass
            with jex_core.set_current_trace(self._outer):
                return step()

        _tracers.append(self)
        try:
            with ExitStack() as stack:
                for guard in guards:
                    stack.enter_context(guard())
                return jax.make_jaxpr(outermost)()
        finally:
            _tracers.pop()

    def mark(self, kind: str, operands: Sequence[Any], outputs: Sequence[Aval], **details: Any) -> list[Any]:
        """Bind a marker in the outermost trace; return the placeholders of its outputs."""
        if any(isinstance(x, jax.core.Tracer) and jex_core.find_top_trace([x]) is not self._outer for x in operands):
            raise InvalidArgumentError(
                f"An operation of a step ({kind}) was given a value that exists only inside a jax.grad, scan, cond or vmap. "
                "Return the value from that function and use it in the step itself (sd.value_and_grad carries the "
                "assignments of its function out by itself)."
            )
        number = len(self.markers)
        self.markers.append(Marker(kind, **details))
        with jex_core.set_current_trace(self._outer):
            return list(_marker.bind(*operands, number=number, outputs=tuple(outputs)))

    # -- what steps do --------------------------------------------------------------------------------------------

    def next_batch(self, iterator: int) -> Any:
        """The next batch of an iterator argument, as a structure of placeholders."""
        assert self.batch_of is not None
        position = self.taken.get(iterator, 0)
        batch = self.batch_of(iterator, position)
        self.taken[iterator] = position + 1
        for _, dtype in batch.signature[1]:
            require_numbers(dtype, "a batch")
        avals = [Aval(tuple(shape), dtype) for shape, dtype in batch.signature[1]]
        if getattr(batch, "global_rows", None) is not None:
            self.global_rows[batch.num_rows] = batch.global_rows
        leaves = self.mark("next", [], avals, iterator=iterator, signature=batch.signature)
        return jax.tree_util.tree_unflatten(batch.structure, leaves)

    def read(self, variable: VariableHandle) -> Any:
        """The value of a variable at this place of the step."""
        for overlay in reversed(self.overlays):
            if id(variable) in overlay.values:
                return overlay.values[id(variable)]
        value = self.mark("read", [], [variable.aval], variable=variable)[0]
        if self.overlays:
            self.overlays[0].reads.append(variable)
        return value

    def update(self, rule: Any, variables: Sequence[VariableHandle], operands: Sequence[Any]) -> None:
        """Change variables; inside `value_and_grad` the change is carried out to the step."""
        if self.overlays:
            self.overlays[-1].write(self, rule, variables, operands)
            return
        if isinstance(rule, str) and self.only_finite:
            operands = [self._finite(rule, variable, operand) for variable, operand in zip(variables, operands, strict=True)]
        if isinstance(rule, str) and self.num_replicas > 1:
            operands = [variable.aggregated(self, rule, operand) for variable, operand in zip(variables, operands, strict=True)]
        self.mark("update", operands, [], rule=rule, variables=tuple(variables))

    def _finite(self, rule: str, variable: VariableHandle, operand: Any) -> Any:
        if not jax.numpy.issubdtype(operand.dtype, jax.numpy.floating):
            return operand
        return jax.numpy.where(jax.numpy.isfinite(operand), operand, self.read(variable) if rule == "assign" else 0)

    def random_key(self, generator: VariableHandle) -> Any:
        """The state of a Keras seed generator: a fresh key for each step and replica, then counted within the step."""
        if id(generator) not in self.seeds:
            self.seeds[id(generator)] = self.mark("key", [], [generator.aval], salt=len(self.seeds))[0]
        return self.seeds[id(generator)]

    def set_random_key(self, generator: VariableHandle, value: Any) -> None:
        """A Keras seed generator counts on, within this step only."""
        self.seeds[id(generator)] = value

    # -- replicas -------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Which replica this is. Whoever asks gets a trace for this replica alone."""
        self.asked_rank = self.is_rank_dependent = True
        return self._rank

    def differs(self, constant: Any) -> bool:
        """Whether a constant that this replica hands to code across the replicas may be another one elsewhere."""
        if not self.is_rank_dependent:
            return False
        number = len(self.reported_constants)
        self.reported_constants.append(constant)
        return number >= len(self.shared) or not self.shared[number]

    def existing_variable(self, variable: Any) -> Any:
        """The variable that was made in the place of this new one when the step was traced before; None: it is the first."""
        number, self._num_made = self._num_made, self._num_made + 1
        if number == len(self.made):
            self.made.append(variable)
            return None
        twin = self.made[number]
        if (twin.shape, twin.dtype) != (variable.shape, variable.dtype):
            raise InvalidArgumentError(
                f"A step makes {variable.name!r} with shape {variable.shape} ({variable.dtype}), where another trace of it made "
                f"{twin.name!r} with shape {twin.shape} ({twin.dtype}). Every replica must make the same variables; make them before."
            )
        return twin

    def collective(self, kind: str, values: Sequence[Any], options: Any = None, label: str = "", averaged: bool = False) -> list[Any]:
        """Exchange arrays with the other replicas (see `simdist.program.collective`; the arguments are those of a `Collective`).

        Returns:
            For "all_reduce" and "broadcast" as many arrays as were given; for "all_gather" a list of arrays for each replica.
        """
        values = [jax.numpy.asarray(value) for value in values]
        gathers = kind == "all_gather"
        if not values or self.num_replicas == 1:
            return [values] * self.num_replicas if gathers else values
        own = tuple(aval_of(value) for value in values)
        number = len(self.collectives)
        theirs = self.known_operands[number] if number < len(self.known_operands) else [own] * self.num_replicas
        outputs = tuple(aval for avals in theirs for aval in avals) if gathers else own
        collective = Collective(kind, own, outputs, self.num_replicas, options, label, averaged)
        self.collectives.append(collective)
        results = bind_collective(collective, self._in_step(values))
        if not gathers:
            return results
        each = iter(results)
        return [[next(each) for _ in avals] for avals in theirs]

    def _in_step(self, values: Sequence[Any]) -> list[Any]:
        """Constants become values of the step, so that the collective is written down and not carried out."""
        if any(isinstance(value, jax.core.Tracer) for value in values):
            return list(values)
        with jex_core.set_current_trace(self._outer):
            return [value + jax.numpy.zeros((), value.dtype) for value in values]

    @contextmanager
    def overlay(self, values: dict[int, Any]) -> Iterator[Overlay]:
        """Let some variables have other values, and hold back all assignments, for a while."""
        overlay = Overlay(values)
        self.overlays.append(overlay)
        try:
            yield overlay
        finally:
            self.overlays.pop()


class Overlay:
    """Values that stand in for variables, and the assignments that were held back."""

    def __init__(self, values: dict[int, Any]) -> None:
        self.values = values
        self.reads: list[VariableHandle] = []
        self.writes: list[tuple[Any, tuple[VariableHandle, ...], list[Any]]] = []

    def write(self, tracer: Tracer, rule: Any, variables: Sequence[VariableHandle], operands: Sequence[Any]) -> None:
        self.writes.append((rule, tuple(variables), list(operands)))
        for variable, operand in zip(variables, operands, strict=True):
            if rule == "assign":
                self.values[id(variable)] = operand
            elif rule == "add":
                self.values[id(variable)] = tracer.read(variable) + operand


def active_tracer() -> Tracer | None:
    """The tracer of the step that is being traced, or None."""
    return _tracers[-1] if _tracers else None


def is_under_a_trace() -> bool:
    """Whether JAX is tracing now: a blocking call here would leave a half-made trace behind."""
    with jex_core.take_current_trace() as trace:
        return type(trace).__name__ != "EvalTrace"
