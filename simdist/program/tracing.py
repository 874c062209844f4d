"""Tracing: the Python of a step runs once, and its effects are noted as markers.

While a step is traced, everything that touches the outside (take a batch, read a variable, update it, combine replicas)
binds one marker primitive in the outermost trace, wherever in the step it happens: inside `jax.grad`, a scan or a Keras
layer (but the body of a loop, traced once, takes no batch and draws no numbers: all turns would get the same). The traced
jaxpr therefore holds pure equations and markers; `simdist.program.cutting` cuts it at the markers.

Invariants: operands of a marker are values of the outermost trace (an assignment from inside a `cond` or `scan` body is
an error that says so); the order of the markers is their order in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import jax
import jax.core
import numpy as np
from jax.extend import core as jex_core

from simdist.errors import InvalidArgumentError
from simdist.process_state import kept_state
from simdist.program.arrays import Array, ArrayLike, Tree, TreeStructure
from simdist.program.captures import captures, require_no_loop
from simdist.program.collective import COLLECTIVE, GradientOptions
from simdist.program.jaxprs import constants_in, frozen
from simdist.program.markers import KeyMarker, Marker, NextMarker, ReadMarker, UpdateMarker
from simdist.program.narrowing import require_numbers
from simdist.program.operations import Reference, Rule, VariableHandle
from simdist.program.overlay import Overlay
from simdist.program.scope import guarded
from simdist.program.step_iterator import StepBatch
from simdist.program.traced_replica import TracedReplica
from simdist.program.traces import jaxpr_of
from simdist.program.valued_trace import GivenValues, ValuedTrace, placeholder_of
from simdist.program.values import Aval

__all__ = ["Overlay", "Tracer", "active_tracer", "is_under_a_trace", "tracing_with"]

_marker = jex_core.Primitive("simdist_marker")
_marker.multiple_results = True


@_marker.def_abstract_eval
def _marker_avals(*_: object, outputs: tuple[Aval, ...], **__: object) -> list[jax.core.ShapedArray]:
    return [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in outputs]


_tracers: list[Tracer] = []


class Tracer(TracedReplica):
    """Collects the markers of one step, as one of its replicas runs it.

    Args:
        batch_of: gives the batch with a number of the iterator that is argument number i, without consuming it.
        rank, num_replicas, known_operands, options: of the replica as which it runs (`TracedReplica`).

    Attributes:
        only_finite: whether assignments leave a variable as it is where they are no numbers: a mean over no rows.
        has_duration: whether the user has declared how long the step computes.
        whole_tables: variables of which rows are looked up, though their gradients never travel as rows.
        lookup_counts: how many rows of a variable were looked up since its gradients were last added.
        common_reads: variables that code across the replicas has read while their copies were equal.
        has_values: whether the step is no trace but a run, with values.
        may_be_traced_again: whether `TracedAgain` ends the trace, and begins it anew.
    """

    has_values = False

    def __init__(
        self,
        batch_of: Callable[[int, int], StepBatch] | None = None,
        rank: int = 0,
        num_replicas: int = 1,
        known_operands: Sequence[Sequence[tuple[Aval, ...]]] = (),
        options: GradientOptions | None = None,
    ) -> None:
        super().__init__(rank, num_replicas, known_operands, options)
        self.markers: list[Marker] = []
        self.batch_of = batch_of
        self.taken: dict[int, int] = {}
        self.looped: set[int] = set()
        self.common_reads: set[Reference] = set()
        self.structures: dict[tuple[int, int], TreeStructure] = {}  # of the batches of each iterator, in order
        self.overlays: list[Overlay] = []
        self.seeds: dict[Reference, jax.Array] = {}
        self._sums: dict[int, tuple[Reference, jax.Array, ArrayLike]] = {}  # by identity: what was made by adding to a variable
        self.tables: dict[Reference, int] = {}  # variables of which rows are looked up
        self.whole_tables: set[Reference] = set()
        self.lookup_counts: dict[Reference, int] = {}
        self.only_finite = self.has_duration = self.may_be_traced_again = self._optional = False

    # -- the trace itself -----------------------------------------------------------------------------------------

    def trace(
        self, step: Callable[[], Sequence[Array]], example: Callable[[Marker], Sequence[Array]] | None = None
    ) -> jex_core.ClosedJaxpr:
        """Run `step`, which returns a flat list of arrays; return its jaxpr with the markers in it.

        Args:
            step: the Python of a step.
            example: the values that markers have, if the Python is to see values while it is traced.
        """

        def outermost() -> Sequence[Array]:
            with jex_core.take_current_trace() as outer:
                self.outermost = outer if example is None else ValuedTrace(outer, self._given_by(example))
            with jex_core.set_current_trace(self.outermost):
                results = list(map(placeholder_of, step()))
            self.seeds.clear()  # values of a trace end with it: jax.checking_leaks
            self._sums.clear()
            return results

        with kept_state(_tracers, captures.entered), tracing_with(self), guarded(), captures.step():
            closed = frozen(jaxpr_of(outermost))
        if any(isinstance(constant, jax.core.Tracer) for constant in constants_in(closed)):
            raise InvalidArgumentError(
                "A step uses a value that exists only inside a jax.grad, scan, cond or vmap: a variable was assigned there, or a value was "
                "kept in a list or an attribute. Return the value from that function (of scan and jax.checkpoint: as a result), and use it "
                "outside. A function under jax.custom_vjp takes what has a gradient, such as a variable's value, as an argument."
            )
        return closed

    def _given_by(self, example: Callable[[Marker], Sequence[Array]]) -> GivenValues:
        """The values of markers; ones stand for the results of collectives."""

        def given(primitive: jex_core.Primitive, params: dict[str, Any]) -> Sequence[Array] | None:
            if primitive is _marker:
                return example(self.markers[params["number"]])
            if primitive.name != COLLECTIVE:
                return None
            return [jax.numpy.ones(aval.shape, aval.dtype) for aval in params["collective"].outputs]

        return given

    def mark(self, marker: Marker, operands: Sequence[jax.Array], outputs: Sequence[Aval]) -> list[jax.Array]:
        """Bind a marker in the outermost trace; return the placeholders of its outputs."""
        if any(isinstance(x, jax.core.Tracer) and jex_core.find_top_trace([x]) is not self.outermost for x in operands):
            raise InvalidArgumentError(
                f"An operation of a step ({marker.kind}) was given a value that exists only inside a jax.grad, scan, cond or vmap. "
                "Return the value from that function and use it in the step itself (sd.value_and_grad carries the "
                "assignments of its function out by itself)."
            )
        number = len(self.markers)
        self.markers.append(marker)
        with jex_core.set_current_trace(self.outermost):
            return list(_marker.bind(*operands, number=number, outputs=tuple(outputs)))

    # -- what steps do --------------------------------------------------------------------------------------------

    def next_batch(self, iterator: int) -> Tree:
        """The next batch of an iterator argument, as a structure of placeholders."""
        assert self.batch_of is not None
        require_no_loop(self.outermost, "A batch was taken", "take the batches before it, and give it the stack of them")
        captures.taken(self.outermost)
        position = self.taken.get(iterator, 0)
        batch = self.batch_of(iterator, position)
        self.taken[iterator] = position + 1
        for _, dtype in batch.signature[1]:
            require_numbers(dtype, "a batch")
        avals = [Aval(tuple(shape), dtype) for shape, dtype in batch.signature[1]]
        if batch.global_rows is not None:
            self.part_rows[iterator, position] = batch.num_rows, batch.global_rows
        leaves = self.mark(NextMarker(iterator, batch.signature), [], avals)
        self.structures[iterator, position] = cast(TreeStructure, batch.structure)
        return jax.tree_util.tree_unflatten(batch.structure, leaves)

    def read(self, variable: VariableHandle) -> jax.Array:
        """The value of a variable at this point of the step."""
        captures.read(self.outermost)
        for overlay in reversed(self.overlays):
            overlay.require_known(variable)
            replaced = variable.found_in(overlay.values, self.read)
            if replaced is not None:
                return replaced
        value = self.mark(ReadMarker(variable, self._optional), [], [variable.aval])[0]
        if self.overlays:
            self.overlays[0].reads.append(variable)
        return value

    @contextmanager
    def optional_reads(self) -> Iterator[None]:
        """Variables that are read inside are only read where the step uses their values."""
        self._optional = True
        try:
            yield
        finally:
            self._optional = False

    def update(self, rule: Rule, variables: Sequence[VariableHandle], operands: Sequence[jax.Array]) -> None:
        """Update variables; inside `value_and_grad` the update becomes part of the step."""
        captures.changed()
        changed = {variable.ref() for variable in variables}
        self._sums = {key: known for key, known in self._sums.items() if known[0] not in changed}
        if self.overlays:
            self.overlays[-1].write(self, rule, variables, operands)
            return
        if isinstance(rule, str) and self.only_finite:
            operands = [self.finite(rule, variable, operand) for variable, operand in zip(variables, operands, strict=True)]
        if isinstance(rule, str) and self.num_replicas > 1:
            operands = [variable.aggregated(self, rule, operand) for variable, operand in zip(variables, operands, strict=True)]
        self.mark(UpdateMarker(rule, tuple(variables)), operands, [])

    def finite(self, rule: str, variable: VariableHandle, operand: jax.Array) -> jax.Array:
        """What is assigned, or added, where it is a number; otherwise the variable stays as it is."""
        if not jax.numpy.issubdtype(operand.dtype, jax.numpy.floating):
            return operand
        return jax.numpy.where(jax.numpy.isfinite(operand), operand, self.read(variable) if rule == "assign" else 0)

    def foresee(self, variables: Sequence[VariableHandle], values: Sequence[jax.Array]) -> None:
        """Let variables be read with these values, which an update gives them; a trace has no values, and reads them where they are."""

    def note_sum(self, variable: VariableHandle, total: jax.Array, added: ArrayLike) -> None:
        """A variable's value plus something was computed: if that is assigned before the next change, `added` is what the step adds."""
        self._sums[id(total)] = variable.ref(), total, added

    def added_to(self, variable: VariableHandle, value: ArrayLike) -> ArrayLike | None:
        """What was added to a variable to get this value; None where that is not known."""
        of, total, added = self._sums.get(id(value), (None, None, None))
        return added if of == variable.ref() and total is value else None

    def random_key(self, generator: VariableHandle) -> jax.Array:
        """The state of a Keras seed generator: a fresh key for each seed, step and replica, then counted within the step."""
        require_no_loop(self.outermost, "Random numbers were drawn", "draw those of all turns before it, and give it what was drawn")
        captures.read(self.outermost)
        own = generator.ref()
        if own not in self.seeds:
            with jax.core.eval_context():
                seed = int(np.asarray(generator.unseen_value())[0])
            self.seeds[own] = self.mark(KeyMarker(seed), [], [generator.aval])[0]
        return self.seeds[own]

    def set_random_key(self, generator: VariableHandle, value: jax.Array) -> None:
        """A Keras seed generator counts on, within this step only."""
        captures.changed()
        self.seeds[generator.ref()] = value

    @contextmanager
    def overlay(self, values: dict[Reference, jax.Array]) -> Iterator[Overlay]:
        """Let some variables have other values, and hold back all assignments, for a while."""
        overlay = Overlay(values)
        captures.changed()
        self.overlays.append(overlay)
        try:
            yield overlay
        finally:
            self.overlays.pop()
            captures.changed()


@contextmanager
def tracing_with(tracer: Tracer) -> Iterator[None]:
    """Let what the Python of a step does to the outside be noted by this tracer."""
    _tracers.append(tracer)
    try:
        yield
    finally:
        if _tracers and _tracers[-1] is tracer:  # Ctrl-C may have ended it before the block began: then it is closed any time later
            _tracers.pop()


def active_tracer() -> Tracer | None:
    """The tracer of the step that is being traced, or None."""
    return _tracers[-1] if _tracers else None


def is_under_a_trace() -> bool:
    """Whether JAX is tracing now: a blocking call here would leave a half-made trace behind."""
    with jex_core.take_current_trace() as trace:
        return type(trace).__name__ != "EvalTrace"
