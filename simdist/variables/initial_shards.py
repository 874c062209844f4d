"""First values shard by shard: an initialiser that takes `partition_shape` and `partition_offset` makes each shard alone.

A large table need not exist in one piece then. Any other initialiser is called once, and what it returns is split, so that a random one
gives one consistent whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike
from simdist.program.operations import VariableHandle
from simdist.program.values import aval_of
from simdist.variables.shard_range import ShardRange

__all__ = ["Initializer", "Partitioning", "initial_shards", "takes_partitions"]

Initializer = Callable[..., ArrayLike]


@runtime_checkable
class Partitioning(Protocol):
    """A scope that splits variables."""

    def ranges_of(self, variable: VariableHandle, /) -> list[ShardRange]:
        """The shards of a new variable; none where it stays whole."""
        ...


PARTITION = ("partition_shape", "partition_offset")


def takes_partitions(initial_value: object) -> bool:
    """Whether it is a function that takes `partition_shape` and `partition_offset`."""
    if not callable(initial_value):
        return False
    try:
        parameters = inspect.signature(initial_value).parameters
    except ValueError:
        return False
    return all(name in parameters for name in PARTITION)


def initial_shards(name: str, make: Initializer, shape: Sequence[int], ranges: Sequence[ShardRange]) -> ArrayLike:
    """The whole first value of a variable, made shard by shard.

    Args:
        name: of the variable.
        make: called with the shape of each shard and the index of its first element; both count from the whole variable.
        shape: of the whole variable.
        ranges: of the shards; none where it is not partitioned.

    Raises:
        InvalidArgumentError: a shard of another shape.
    """
    if not ranges:
        return make(partition_shape=tuple(shape), partition_offset=(0,) * len(shape))
    shards: list[jax.Array] = []
    for part in ranges:
        wanted = part.shape_of(shape)
        shard = aval_of(made := make(partition_shape=wanted, partition_offset=part.offset(len(shape))))
        if shard.shape != wanted:
            raise InvalidArgumentError(
                f"The initial_value of {name!r} returned shape {shard.shape} for partition_shape={wanted}. Return that shape, or "
                "leave partition_shape out of the function's arguments: it is then called once for the whole variable."
            )
        shards.append(jnp.asarray(made))
    return jnp.concatenate(shards, axis=ranges[0].axis)
