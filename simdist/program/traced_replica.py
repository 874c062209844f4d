"""The replica as which a step is traced: what it knows of itself and of the others, and the collectives in which all of them take part.

What is traced for one replica holds for all of its kind, unless the step asks for its rank, or has a constant that others have not
(`simdist.program.replica_programs`). What two traces of one step must have in common, such as the variables that they create, stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, overload

import jax
import jax.core
from jax.extend import core as jex_core

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike
from simdist.program.batch_rows import BatchRows
from simdist.program.captures import captures
from simdist.program.collective import SPARSE_SUM, Collective, CollectiveOptions, GradientOptions, bind_collective
from simdist.program.global_sizes import GivenSize, GlobalSize, taken
from simdist.program.operations import VariableHandle
from simdist.program.values import Aval, aval_of

__all__ = ["TracedReplica"]

AlikeEverywhere = Literal["all_reduce", "broadcast"]
Gathered = Literal["all_gather"]


class TracedReplica:
    """One replica of a step that is being traced.

    Args:
        rank: the replica whose place is taken; what it traces holds for all of its kind unless it asks for `rank`.
        num_replicas: how many take the step together.
        known_operands: what each replica gives to each collective, where that is known from an earlier trace: avals by collective and rank.
        options: what the strategy wants of the collective of gradients.

    Attributes:
        outermost: the trace of the step itself; None while it is not traced.
        collectives: those in which the replica takes part, in order.
        asked_rank: whether the step asked which replica it is.
        is_rank_dependent: whether it has something fixed, no array, that other replicas have not: its rank, or its own argument.
        is_uneven: whether other replicas have arguments of other shapes.
        row_weight: how many times the rows of an average replica this one has; of means over the replicas of what they assign.
        loss_weight: by how much the step weighs the gradients of this replica behind their derivative; 1 as an average one.
        in_replica: whether code runs for one replica (inside `strategy.run`), or across them.
        reads_each_copy: whether code across the replicas reads, of a variable with differing copies, the copy of each replica.
        in_loss: whether a loss is computed that adds up with those of other replicas, not weighed by its rows; None outside of losses.
        global_rows: rows of all replicas' parts of the batches taken, by the rows of this replica's part.
        part_rows: rows of this replica's part of a batch, and of all parts, by the number of the iterator and of the batch.
        global_sizes: what the replica takes for the number of examples of all replicas, in order.
        given_sizes: those that the step gave itself since its last collective.
        joint_sizes: of these what all replicas together have found, where one alone cannot know.
        reported_constants: constants that the replica has handed to code across the replicas, in order.
        shared: which of these all replicas are known to have alike.
        created_variables: those that each trace of the step makes, by position, whichever replica was traced first.
        num_created: how many this trace has made.
    """

    def __init__(
        self, rank: int, num_replicas: int, known_operands: Sequence[Sequence[tuple[Aval, ...]]], options: GradientOptions | None
    ) -> None:
        self._rank = rank
        self.num_replicas, self.row_weight, self.loss_weight = num_replicas, 1.0, 1.0
        self.known_operands = known_operands
        self.options = options
        self.collectives: list[Collective] = []
        self.asked_rank = self.is_rank_dependent = self.is_uneven = self.in_replica = self.reads_each_copy = False
        self.in_loss: bool | None = None
        self.global_rows = BatchRows()
        self.part_rows: dict[tuple[int, int], tuple[int, int]] = {}
        self.global_sizes, self.given_sizes = list[GlobalSize](), list[GivenSize]()
        self.joint_sizes: Sequence[int | None] = ()
        self.shared: Sequence[bool] = ()
        self.reported_constants: list[object] = []
        self.created_variables: list[VariableHandle] = []
        self.num_created = 0
        self.outermost: jax.core.Trace | None = None

    @property
    def replica_rank(self) -> int:
        """The rank of the replica whose place is taken; to ask for it makes nothing depend on it."""
        return self._rank

    @property
    def rank(self) -> int:
        """The rank of this replica. A step that reads it is traced for each replica by itself."""
        self.asked_rank = self.is_rank_dependent = True
        captures.read(self.outermost)
        return self._rank

    @property
    def has_no_rows(self) -> bool:
        """Whether this replica has parts of batches, of which none has rows."""
        return self.num_replicas > 1 and self.global_rows.are_none

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

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Inside, code of the step is traced once more, to learn of it: what replicas must agree on is that of the step alone."""
        noted: list[list[Any]] = [self.collectives, self.global_sizes, self.given_sizes, self.reported_constants]
        before = [list(notes) for notes in noted]
        try:
            yield
        finally:
            for notes, kept in zip(noted, before, strict=True):
                notes[:] = kept

    def existing_variable(self, variable: VariableHandle) -> VariableHandle | None:
        """The variable that an earlier trace of the step created at this point; None: this is the first one."""
        number, self.num_created = self.num_created, self.num_created + 1
        if number == len(self.created_variables):
            self.created_variables.append(variable)
            return None
        existing = self.created_variables[number]
        if (existing.name, existing.shape, existing.dtype) != (variable.name, variable.shape, variable.dtype):
            raise InvalidArgumentError(
                f"A step creates {variable.name!r} with shape {variable.shape} ({variable.dtype}), where another trace created "
                f"{existing.name!r} with shape {existing.shape} ({existing.dtype}). Every replica and every trace must create the same "
                "variables; create them before the step, or each only where it is not there yet."
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
        is_for_update: bool = ...,
    ) -> list[jax.Array]: ...
    @overload
    def collective(
        self, kind: Gathered, values: Sequence[ArrayLike], options: CollectiveOptions | None = ..., label: str = ..., averaged: bool = ...
    ) -> list[list[jax.Array]]: ...
    def collective(
        self,
        kind: str,
        values: Sequence[ArrayLike],
        options: CollectiveOptions | None = None,
        label: str = "",
        averaged: bool = False,
        is_for_update: bool = False,
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
        collective = Collective(
            kind,
            own,
            outputs,
            self.num_replicas,
            options,
            label,
            averaged,
            is_for_update,
            given_sizes=sizes,
            loss_weight=self.loss_weight,
            number=number,
        )
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
        number = len(self.collectives)
        collective = Collective(
            SPARSE_SUM, (aval,), (aval,), self.num_replicas, label="gradients", table=table, given_sizes=sizes, number=number
        )
        self.collectives.append(collective)
        return bind_collective(collective, self._in_step([gradient]))[0]

    def _in_step(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """Constants become values of the step, so that the collective is written down and not carried out."""
        if any(isinstance(value, jax.core.Tracer) for value in values):
            return list(values)
        with jex_core.set_current_trace(self.outermost):
            return [value + jax.numpy.zeros((), value.dtype) for value in values]
