"""A value for each replica, made by calling a function for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import jax

from simdist.errors import InvalidArgumentError
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

    Of a list, a tuple or a dict each part is a `PerReplica`, as of the elements of a distributed dataset. An array of NumPy is as it was
    when it was returned, whatever becomes of it later.

    Args:
        value_fn: called with each replica's `ValueContext` in turn.
        ranks: of the replicas that this program drives.
        num_replicas: how many take a step together.

    Raises:
        TypeError: not a function.
        InvalidArgumentError: the function gives structures that differ.
        FailedPreconditionError: called inside `run`.

    Example:
        >>> values_from_function(lambda context: 10 * context.replica_id_in_sync_group, range(2), 2)
        PerReplica(0, 10)
        >>> values_from_function(lambda context: {"rank": context.replica_id_in_sync_group}, range(2), 2)
        {'rank': PerReplica(0, 1)}
    """
    if not callable(value_fn):
        raise TypeError(f"distribute_values_from_function takes a function of a ValueContext; got {type(value_fn).__name__}.")
    context.require_cross_replica("distribute_values_from_function")
    values = [jax.tree.map(snapshot, value_fn(ValueContext(rank, num_replicas))) for rank in ranks]
    return values[0] if len(values) == 1 else _regrouped(values)


def _regrouped(values: Sequence[Tree]) -> Tree:
    """One structure, with the values of all replicas in the position of each leaf; None is one."""
    flat = [jax.tree.flatten(value, is_leaf=lambda part: part is None) for value in values]
    structures = [structure for _, structure in flat]
    for rank, structure in enumerate(structures):
        if structure != structures[0]:
            raise InvalidArgumentError(
                f"distribute_values_from_function was given a function that returns {structures[0]} for the first replica, and {structure} "
                f"for number {rank}. Return one structure; what differs belongs into arrays."
            )
    return jax.tree.unflatten(structures[0], [PerReplica(parts) for parts in zip(*(leaves for leaves, _ in flat), strict=True)])
