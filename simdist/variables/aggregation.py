"""Aggregation of a variable: assignments of several replicas in one step, and reads of replica-local values.

    synchronization   aggregation           in a replica                    across replicas
    ON_WRITE (AUTO)   NONE                  each changes its own copy       all copies change
                      SUM, MEAN             the values are combined first   all copies change
                      ONLY_FIRST_REPLICA    that of replica 0 counts        all copies change
    ON_READ           NONE                  each has its own value          a read is an error
                      SUM                   each has its own value          a read gives the sum; assign(x) gives each x / n
                      MEAN                  each has its own value          a read gives the mean; assign(x) gives each x
                      ONLY_FIRST_REPLICA    each has its own value          a read gives that of replica 0

On parameter servers a variable has one value for the replicas of all workers: to what is ON_READ with SUM a replica adds, other ON_READ is
ON_WRITE, and NONE cannot be changed in a replica of several.

Taught in lesson 02.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, TypeVar, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.arguments import shown
from simdist.errors import InvalidArgumentError
from simdist.program.half_precision import is_half, widened
from simdist.program.operations import ReplicaTrace

__all__ = [
    "Aggregated",
    "VariableAggregation",
    "VariableSynchronization",
    "aggregation_of",
    "combined_read",
    "is_sum_of_replicas",
    "mean_of_replicas",
    "no_first_replica",
    "of_first_replica",
    "replica_write",
    "synchronization_of",
]


class VariableAggregation(Enum):
    """Aggregation: how the values of the replicas become one when a variable is updated, or read.

    Attributes:
        NONE: not at all; each replica changes its own copy.
        SUM: their sum.
        MEAN: their mean.
        ONLY_FIRST_REPLICA: the value of replica 0.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(devices=2)
        >>> with strategy.scope():
        ...     total = sd.Variable(0.0, aggregation=sd.VariableAggregation.SUM)
        >>> _ = strategy.run(lambda: total.assign_add(1.0 + sd.get_replica_context().replica_id_in_sync_group))
        >>> float(total.numpy())
        3.0
    """

    NONE = "none"
    SUM = "sum"
    MEAN = "mean"
    ONLY_FIRST_REPLICA = "only_first_replica"


class VariableSynchronization(Enum):
    """Synchronization: when the copies of a variable are aggregated.

    Attributes:
        AUTO: when it is written.
        NONE: never; there is one copy.
        ON_WRITE: when it is written, so that all copies are equal.
        ON_READ: when it is read across the replicas; each replica writes and reads its own copy. The copies begin with the initial value;
            those of a SUM, whose sum begins with it, with 0, but for the first.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(devices=2)
        >>> with strategy.scope():
        ...     rows = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)
        >>> _ = strategy.run(lambda: rows.assign_add(1.0 + sd.get_replica_context().replica_id_in_sync_group))
        >>> float(rows.numpy())
        3.0
    """

    AUTO = "auto"
    NONE = "none"
    ON_WRITE = "on_write"
    ON_READ = "on_read"


class Aggregated(Protocol):
    """What aggregation must know of a variable."""

    name: str
    synchronization: VariableSynchronization
    aggregation: VariableAggregation

    @property
    def is_served(self) -> bool:
        """Whether it has one value for all replicas, on servers."""
        ...

    def separate(self) -> None:
        """Give each replica a copy of its own, which may differ from the others."""
        ...


Word = TypeVar("Word", VariableAggregation, VariableSynchronization)


def synchronization_of(word: VariableSynchronization | str) -> VariableSynchronization:
    """The synchronization for a word or a member; AUTO is ON_WRITE.

    Raises:
        InvalidArgumentError: NONE, or no such word.
    """
    found = _member(VariableSynchronization, word, "synchronization")
    if found is VariableSynchronization.NONE:
        raise InvalidArgumentError("synchronization=NONE is not supported; use AUTO, ON_WRITE or ON_READ.")
    return VariableSynchronization.ON_WRITE if found is VariableSynchronization.AUTO else found


def aggregation_of(word: VariableAggregation | str) -> VariableAggregation:
    """The aggregation for a word or a member.

    Raises:
        InvalidArgumentError: no such word.
    """
    return _member(VariableAggregation, word, "aggregation")


def _member(kind: type[Word], word: Word | str, argument: str) -> Word:
    found = cast("object", word.value if isinstance(word, kind) else word)
    if not isinstance(found, str) or found.lower() not in [member.value for member in kind]:
        names = ", ".join(kind.__members__)
        raise InvalidArgumentError(f"{argument}={shown(word)} is not known; use one of {kind.__name__}.{names}.")
    return kind(found.lower())


def replica_write(tracer: ReplicaTrace, variable: Aggregated, rule: str, operand: jax.Array) -> jax.Array:
    """The operand of an assignment or increment to a variable, after aggregation over the replicas."""
    if variable.is_served and is_sum_of_replicas(variable):
        _require_increment(tracer, variable, rule)
        return operand
    if variable.synchronization is VariableSynchronization.ON_READ and not variable.is_served:
        return operand if tracer.in_replica else _shared(tracer, variable, rule, operand)
    if not tracer.in_replica:
        return operand
    match variable.aggregation:
        case VariableAggregation.NONE:
            variable.separate()
            return operand
        case VariableAggregation.ONLY_FIRST_REPLICA:
            return of_first_replica(tracer, operand, variable.name)
        case VariableAggregation.MEAN if tracer.row_weight != 1.0 and variable.synchronization is not VariableSynchronization.ON_READ:
            weighed = operand * tracer.row_weight if tracer.row_weight else jnp.zeros_like(operand)
            return _combined(tracer, VariableAggregation.MEAN, weighed.astype(operand.dtype), variable.name, is_for_update=True)
        case aggregation:
            return _combined(tracer, aggregation, operand, variable.name, is_for_update=True)


def is_sum_of_replicas(variable: Aggregated) -> bool:
    """Whether a variable is what its replicas have counted, each by itself."""
    return variable.synchronization is VariableSynchronization.ON_READ and variable.aggregation is VariableAggregation.SUM


def _require_increment(tracer: ReplicaTrace, variable: Aggregated, rule: str) -> None:
    """Of a sum over the replicas that is one value on a server, a replica adds to it, and code across them assigns all of it."""
    if rule == "add" and not tracer.in_replica:
        raise increment_of_sum(variable)
    if rule == "assign" and tracer.in_replica:
        raise InvalidArgumentError(
            f"{variable.name} is the sum of what the replicas have counted, and one of several replicas of a worker was about to assign "
            "it, though it does not know what the others have counted. Use assign_add, or assign it outside strategy.run."
        )


def combined_read(tracer: ReplicaTrace, variable: Aggregated, local_value: jax.Array) -> jax.Array:
    """The value of a read across the replicas, where this replica has `local_value`."""
    if variable.aggregation is VariableAggregation.NONE:
        raise no_combination(variable)
    if variable.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
        return of_first_replica(tracer, local_value, variable.name)
    return _combined(tracer, variable.aggregation, local_value, variable.name)


def of_first_replica(tracer: ReplicaTrace, local_value: jax.Array, label: str) -> jax.Array:
    """What the first replica has, where this one has `local_value`."""
    return tracer.collective("broadcast", [local_value], label=label)[0]


def mean_of_replicas(tracer: ReplicaTrace, local_value: jax.Array, label: str) -> jax.Array:
    """The mean of what the replicas have, where this one has `local_value`."""
    return _combined(tracer, VariableAggregation.MEAN, local_value, label)


def _combined(
    tracer: ReplicaTrace, aggregation: VariableAggregation, value: jax.Array, label: str, is_for_update: bool = False
) -> jax.Array:
    averaged = aggregation is VariableAggregation.MEAN
    values = [widened(value) if averaged else value]
    total = tracer.collective("all_reduce", values, label=label, averaged=averaged, is_for_update=is_for_update)[0]
    if not averaged:
        return total
    mean = total / tracer.num_replicas
    return mean.astype(value.dtype) if is_half(value.dtype) else mean


def _shared(tracer: ReplicaTrace, variable: Aggregated, rule: str, operand: jax.Array) -> jax.Array:
    if variable.aggregation is not VariableAggregation.SUM:
        return operand
    if rule == "add":
        raise increment_of_sum(variable)
    if jnp.issubdtype(operand.dtype, jnp.inexact):
        return operand / tracer.num_replicas
    return _whole_share(tracer, operand)


def _whole_share(tracer: ReplicaTrace, operand: jax.Array) -> jax.Array:
    """This replica's share of whole numbers: the first one has the rest, where they cannot be divided equally."""
    if not isinstance(operand, jax.core.Tracer):
        known = np.asarray(operand)
        if not (known % tracer.num_replicas).any():
            return jnp.asarray(known // tracer.num_replicas)
    share = operand // tracer.num_replicas
    return share if tracer.rank else operand - share * (tracer.num_replicas - 1)


def increment_of_sum(variable: Aggregated) -> InvalidArgumentError:
    """The error for an increment across the replicas of a variable that is their sum: it could belong to any of them."""
    return InvalidArgumentError(
        f"assign_add or assign_sub on {variable.name}, which is the sum of the replicas' values, was called across the replicas. Call it "
        "inside strategy.run, or assign the whole value."
    )


def no_combination(variable: Aggregated) -> InvalidArgumentError:
    """The error for a read across the replicas without an aggregation."""
    return InvalidArgumentError(
        f"{variable.name} has synchronization ON_READ and aggregation NONE: each replica has a value of its own. Read it inside "
        "strategy.run, look at strategy.local_results(variable), or give it aggregation SUM, MEAN or ONLY_FIRST_REPLICA."
    )


def no_first_replica(variable: Aggregated) -> InvalidArgumentError:
    """The error for a read across the replicas of one of several mains, in a step, where the copies differ."""
    return InvalidArgumentError(
        f"Replicas have assigned values of their own to {variable.name}, and code across the replicas of this main was about to read it in "
        "a step, which all mains take together: they would have to agree on one of the copies. Read it inside strategy.run, or outside of "
        "the step, or give the variable aggregation=MEAN."
    )
