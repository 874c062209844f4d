"""Tracing: the Python of a step runs once, and its effects are noted as markers.

While a step is traced, everything that touches the outside (take a batch, read a variable, update it, combine replicas)
binds one marker primitive in the outermost trace, wherever in the step it happens: inside `jax.grad`, a scan or a Keras
layer. The traced jaxpr therefore holds pure equations and markers; `simdist.program.cutting` cuts it at the markers.

Invariants: operands of a marker are values of the outermost trace (an assignment from inside a `cond` or `scan` body is
an error that says so); the order of the markers is their order in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast, overload

import jax
import jax.core
import numpy as np
from jax.extend import core as jex_core

from simdist.errors import InvalidArgumentError
from simdist.process_state import kept_state
from simdist.program.arrays import Array, ArrayLike, Tree, TreeStructure
from simdist.program.batch_rows import BatchRows
from simdist.program.captures import Captures
from simdist.program.collective import COLLECTIVE, SPARSE_SUM, Collective, CollectiveOptions, GradientOptions, bind_collective
from simdist.program.global_sizes import GivenSize, GlobalSize, taken
from simdist.program.jaxprs import constants_in, frozen
from simdist.program.markers import KeyMarker, Marker, NextMarker, ReadMarker, UpdateMarker
from simdist.program.narrowing import require_numbers
from simdist.program.operations import Reference, Rule, VariableHandle
from simdist.program.overlay import Overlay
from simdist.program.scope import guarded
from simdist.program.step_iterator import StepBatch
from simdist.program.traces import jaxpr_of
from simdist.program.valued_trace import GivenValues, ValuedTrace, placeholder_of
from simdist.program.values import Aval, aval_of

__all__ = ["Overlay", "Tracer", "active_tracer", "is_under_a_trace", "tracing_with"]

_marker = jex_core.Primitive("simdist_marker")
_marker.multiple_results = True


@_marker.def_abstract_eval
def _marker_avals(*_: object, outputs: tuple[Aval, ...], **__: object) -> list[jax.core.ShapedArray]:
    return [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in outputs]


AlikeEverywhere = Literal["all_reduce", "broadcast"]
Gathered = Literal["all_gather"]
_tracers: list[Tracer] = []
captures = Captures()


class Tracer:
    """Collects the markers of one step, as one of its replicas runs it.

    Args:
        batch_of: gives the batch with a number of the iterator that is argument number i, without consuming it.
        rank: the replica whose place is taken; what it traces holds for all of its kind unless it asks for `rank`.
        num_replicas: how many take the step together.
        known_operands: what each replica gives to each collective, where that is known from an earlier trace: avals by collective and rank.
        options: what the strategy wants of the collective of gradients.

    Attributes:
        collectives: those in which the replica takes part, in order.
        asked_rank: whether the step asked which replica it is.
        is_rank_dependent: whether it has something fixed, no array, that other replicas have not: its rank, or its own argument.
        is_uneven: whether other replicas have arguments of other shapes.
        only_finite: whether assignments leave a variable as it is where they are no numbers: a mean over no rows.
        row_weight: how many times the rows of an average replica this one has; of means over the replicas of what they assign.
        has_duration: whether the user has declared how long the step computes.
        in_replica: whether code runs for one replica (inside `strategy.run`), or across them.
        whole_tables: variables of which rows are looked up, though their gradients never travel as rows.
        lookup_counts: how many rows of a variable were looked up since its gradients were last added.
        global_rows: rows of all replicas' parts of the batches taken, by the rows of this replica's part.
        part_rows: rows of this replica's part of a batch, and of all parts, by the number of the iterator and of the batch.
        global_sizes: what the replica takes for the number of examples of all replicas, in order.
        given_sizes: those that the step gave itself since its last collective.
        guessed: which of these are no size of a batch, as all replicas together have found.
        reported_constants: constants that the replica has handed to code across the replicas, in order.
        shared: which of these all replicas are known to have alike.
        created_variables: those that the step has made, whichever replica was traced first.
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
        self.markers: list[Marker] = []
        self.batch_of = batch_of
        self.taken: dict[int, int] = {}
        self.structures: dict[tuple[int, int], TreeStructure] = {}  # of the batches of each iterator, in order
        self.overlays: list[Overlay] = []
        self.seeds: dict[Reference, jax.Array] = {}
        self._sums: dict[int, tuple[Reference, jax.Array, ArrayLike]] = {}  # by identity: what was made by adding to a variable
        self.tables: dict[Reference, int] = {}  # variables of which rows are looked up
        self.whole_tables: set[Reference] = set()
        self.lookup_counts: dict[Reference, int] = {}
        self._rank = rank
        self.num_replicas, self.row_weight = num_replicas, 1.0
        self.known_operands = known_operands
        self.options = options
        self.collectives: list[Collective] = []
        self.asked_rank = self.is_rank_dependent = self.is_uneven = False
        self.in_replica = self.only_finite = self.has_duration = self.may_be_traced_again = False
        self.global_rows = BatchRows()
        self.part_rows: dict[tuple[int, int], tuple[int, int]] = {}
        self.global_sizes, self.given_sizes = list[GlobalSize](), list[GivenSize]()
        self.guessed: Sequence[bool] = ()
        self.shared: Sequence[bool] = ()
        self.reported_constants: list[object] = []
        self.created_variables: list[VariableHandle] = []
        self._num_created, self._optional = 0, False
        self._outer: jax.core.Trace | None = None

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
                self._outer = outer if example is None else ValuedTrace(outer, self._given_by(example))
            with jex_core.set_current_trace(self._outer):
                return list(map(placeholder_of, step()))

        with kept_state(_tracers, captures.entered), tracing_with(self), guarded(), captures.step():
            closed = frozen(jaxpr_of(outermost))
        if any(isinstance(constant, jax.core.Tracer) for constant in constants_in(closed)):
            raise InvalidArgumentError(
                "A step uses a value that exists only inside a jax.grad, scan, cond or vmap: a variable was assigned there, or a value was "
                "kept in a list or an attribute. Return the value from that function (of scan and jax.checkpoint: as a result), and use it "
                "outside."
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
        if any(isinstance(x, jax.core.Tracer) and jex_core.find_top_trace([x]) is not self._outer for x in operands):
            raise InvalidArgumentError(
                f"An operation of a step ({marker.kind}) was given a value that exists only inside a jax.grad, scan, cond or vmap. "
                "Return the value from that function and use it in the step itself (sd.value_and_grad carries the "
                "assignments of its function out by itself)."
            )
        number = len(self.markers)
        self.markers.append(marker)
        with jex_core.set_current_trace(self._outer):
            return list(_marker.bind(*operands, number=number, outputs=tuple(outputs)))

    # -- what steps do --------------------------------------------------------------------------------------------

    def next_batch(self, iterator: int) -> Tree:
        """The next batch of an iterator argument, as a structure of placeholders."""
        assert self.batch_of is not None
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
        captures.read(self._outer)
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
            operands = [self._finite(rule, variable, operand) for variable, operand in zip(variables, operands, strict=True)]
        if isinstance(rule, str) and self.num_replicas > 1:
            operands = [variable.aggregated(self, rule, operand) for variable, operand in zip(variables, operands, strict=True)]
        self.mark(UpdateMarker(rule, tuple(variables)), operands, [])

    def _finite(self, rule: str, variable: VariableHandle, operand: jax.Array) -> jax.Array:
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
        captures.read(self._outer)
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

    # -- replicas -------------------------------------------------------------------------------------------------

    @property
    def replica_rank(self) -> int:
        """The rank of the replica whose place is taken; to ask for it makes nothing depend on it."""
        return self._rank

    @property
    def rank(self) -> int:
        """The rank of this replica. A step that reads it is traced for each replica by itself."""
        self.asked_rank = self.is_rank_dependent = True
        captures.read(self._outer)
        return self._rank

    def of_all(self, count: int) -> int:
        """How many all replicas have together of what this one has so many of, by the rows of its part of the batch."""
        return self.global_rows.of_all(count, self.num_replicas)

    def differs(self, constant: object) -> bool:
        """Whether a constant that this replica hands to code across the replicas may have another value at another replica.

        It may where the step asked which replica it is, and where others have more or fewer rows: a number may be that of rows.
        """
        is_uneven = self.is_uneven or self.global_rows.are_uneven(self.num_replicas)
        if not self.is_rank_dependent and not (is_uneven and isinstance(constant, (int, float))):
            return False
        number = len(self.reported_constants)
        self.reported_constants.append(constant)
        return number >= len(self.shared) or not self.shared[number]

    def existing_variable(self, variable: VariableHandle) -> VariableHandle | None:
        """The variable that an earlier trace of the step created at this point; None: this is the first one."""
        number, self._num_created = self._num_created, self._num_created + 1
        if number == len(self.created_variables):
            self.created_variables.append(variable)
            return None
        existing = self.created_variables[number]
        if (existing.shape, existing.dtype) != (variable.shape, variable.dtype):
            raise InvalidArgumentError(
                f"A step creates {variable.name!r} with shape {variable.shape} ({variable.dtype}), where another trace created "
                f"{existing.name!r} with shape {existing.shape} ({existing.dtype}). Every replica must create the same variables; "
                "create them before the step."
            )
        return existing

    @overload
    def collective(
        self,
        kind: AlikeEverywhere,
        values: Sequence[ArrayLike],
        options: CollectiveOptions | None = ...,
        label: str = ...,
        averaged: bool = ...,
    ) -> list[jax.Array]: ...
    @overload
    def collective(
        self, kind: Gathered, values: Sequence[ArrayLike], options: CollectiveOptions | None = ..., label: str = ..., averaged: bool = ...
    ) -> list[list[jax.Array]]: ...
    def collective(
        self, kind: str, values: Sequence[ArrayLike], options: CollectiveOptions | None = None, label: str = "", averaged: bool = False
    ) -> list[jax.Array] | list[list[jax.Array]]:
        """Add a collective to the step (see `simdist.program.collective`; the arguments are those of a `Collective`).

        Returns:
            As many arrays as were given; for "all_gather" r lists of them, one for each replica.
        """
        arrays = [jax.numpy.asarray(value) for value in values]
        gathers = kind == "all_gather"
        if not arrays or self.num_replicas == 1:
            return [arrays] * self.num_replicas if gathers else arrays
        own = tuple(aval_of(array) for array in arrays)
        number = len(self.collectives)
        theirs = self.known_operands[number] if number < len(self.known_operands) else [own] * self.num_replicas
        outputs = tuple(aval for avals in theirs for aval in avals) if gathers else own
        sizes = taken(self.given_sizes)
        collective = Collective(kind, own, outputs, self.num_replicas, options, label, averaged, given_sizes=sizes)
        self.collectives.append(collective)
        results = bind_collective(collective, self._in_step(arrays))
        if not gathers:
            return results
        each = iter(results)
        return [[next(each) for _ in avals] for avals in theirs]

    def sparse_sum(self, gradient: jax.Array, table: int) -> jax.Array:
        """The sum over the replicas of the gradient of a table, which may travel as rows (see `simdist.program.sparse_sums`).

        Args:
            gradient: of this replica.
            table: its number among the variables of the update.
        """
        aval = aval_of(gradient)
        sizes = taken(self.given_sizes)
        collective = Collective(SPARSE_SUM, (aval,), (aval,), self.num_replicas, label="gradients", table=table, given_sizes=sizes)
        self.collectives.append(collective)
        return bind_collective(collective, self._in_step([gradient]))[0]

    def _in_step(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """Constants become values of the step, so that the collective is written down and not carried out."""
        if any(isinstance(value, jax.core.Tracer) for value in values):
            return list(values)
        with jex_core.set_current_trace(self._outer):
            return [value + jax.numpy.zeros((), value.dtype) for value in values]

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
