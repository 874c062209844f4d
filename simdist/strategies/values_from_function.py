"""A value for each replica, made by calling a function for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import jax

from simdist.program.arrays import Tree
from simdist.program.per_replica import PerReplica
from simdist.program.values import snapshot
from simdist.strategies import context

__all__ = ["ValueContext", "values_from_function"]


@dataclass(frozen=True)
class ValueContext:
    """For which replica a value is made.

    Args:
        replica_id_in_sync_group: from 0.
        num_replicas_in_sync: how many take a step together.

    Example:
        >>> ValueContext(replica_id_in_sync_group=1, num_replicas_in_sync=4)
        ValueContext(replica_id_in_sync_group=1, num_replicas_in_sync=4)
    """

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1


def values_from_function(value_fn: Callable[[ValueContext], Tree], ranks: Iterable[int], num_replicas: int) -> Tree:
    """What the function gives for each of these replicas: of several as a `PerReplica`, of one as it is.

    An array of NumPy is as it was when it was returned, whatever becomes of it later.

    Args:
        value_fn: called with each replica's `ValueContext` in turn.
        ranks: of the replicas that this program drives.
        num_replicas: how many take a step together.

    Raises:
        TypeError: not a function.
        FailedPreconditionError: called inside `run`.

    Example:
        >>> values_from_function(lambda context: 10 * context.replica_id_in_sync_group, range(2), 2)
        PerReplica(0, 10)
    """
    if not callable(value_fn):
        raise TypeError(f"distribute_values_from_function takes a function of a ValueContext; got {type(value_fn).__name__}.")
    context.require_cross_replica("distribute_values_from_function")
    values = [jax.tree.map(snapshot, value_fn(ValueContext(rank, num_replicas))) for rank in ranks]
    return values[0] if len(values) == 1 else PerReplica(values)
