"""`ShardedVariable`: a variable whose shards are on several parameter servers.

It is used like any other variable: a read joins the shards, and an update is split among them. `variables` gives the shards, each of
which is a variable, too: it can be read, assigned and trained by itself, and only its own server is asked.

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import jax
import jax.numpy as jnp

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike
from simdist.program.narrowing import canonical
from simdist.program.operations import Reference, VariableHandle
from simdist.variables.arithmetic import Index
from simdist.variables.item_assignment import assign_items
from simdist.variables.placement import Placement
from simdist.variables.shard_range import ranges_of_sizes
from simdist.variables.variable import Variable

__all__ = ["Shard", "ShardedVariable"]


class Shard(Variable):
    """One shard of a variable that a partitioner has split. A variable itself; made by `ShardedVariable.variables`.

    Attributes:
        name: that of the whole variable, with the number of the shard.
        shape: of the shard.
    """

    def __init__(self, container: ShardedVariable, number: int) -> None:
        cell = container.placement.cells[number]
        part = container.placement.range_of(cell)
        assert part is not None
        self.name, self.shape, self.dtype = f"{container.name}/part_{number}", cell.aval.shape, cell.aval.dtype
        self.trainable = container.trainable
        self.synchronization, self.aggregation = container.synchronization, container.aggregation
        self.placement = Placement([cell], container.placement.store)
        self.container, self.range_in_container = container, part

    @property
    def rows(self) -> tuple[int, int]:
        """First and one-past-last index of the whole variable, along the axis that is partitioned."""
        return self.range_in_container.start, self.range_in_container.stop

    def __repr__(self) -> str:
        axis = "" if self.range_in_container.axis == 0 else f", axis={self.range_in_container.axis}"
        return f"Shard({self.name!r}, rows={self.rows}{axis}, on={self.device!r})"


class ShardedVariable(Variable):
    """A `Variable` that is partitioned along one axis. A partitioner makes it; a user can make one of variables that exist.

    Args:
        variables: the shards in their order: variables of one dtype, whose shapes are equal except for `axis`.
        name: shown in errors.
        axis: along which they are joined; default 0.

    Raises:
        TypeError: `variables` is no list of at least one variable.
        InvalidArgumentError: different dtypes or shapes, an axis that is not there, variables of several strategies or of one with
            several replicas, or one that is sharded or a shard already.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
        >>> with strategy.scope():
        ...     table = sd.Variable(np.arange(6.0).reshape(3, 2), name="table")
        >>> table.variables
        [Shard('table/part_0', rows=(0, 2), on='ps:0'), Shard('table/part_1', rows=(2, 3), on='ps:1')]
        >>> table.variables[1].numpy().tolist()
        [[4.0, 5.0]]
        >>> table[1:, 0] = [7.0, 8.0]
        >>> table.numpy().tolist(), table.shape
        ([[0.0, 1.0], [7.0, 3.0], [8.0, 5.0]], (3, 2))
    """

    _shards: list[Variable] | None = None

    def __init__(self, variables: Sequence[Variable], name: str = "ShardedVariable", axis: int = 0) -> None:
        shards = _checked_shards(variables, axis)
        first, axis = shards[0], axis % max(1, len(shards[0].shape))
        ranges = ranges_of_sizes(axis, [shard.shape[axis] for shard in shards])
        self.name, self.dtype, self.trainable = name, first.dtype, first.trainable
        self.shape = ranges[0].whole_shape(first.shape)
        self.synchronization, self.aggregation = first.synchronization, first.aggregation
        cells = [shard.placement.cells[0] for shard in shards]
        self.placement = Placement(cells, first.placement.store, ranges=ranges)
        self._shards = shards
        for shard, part in zip(shards, ranges, strict=True):
            shard.container, shard.range_in_container = self, part

    @property
    def variables(self) -> list[Variable]:
        """The shards in their order."""
        if self._shards is None:
            self._shards = [Shard(self, number) for number in range(len(self.placement.cells))]
        return list(self._shards)

    @classmethod
    def of(cls, variable: Variable) -> None:
        """Change the class of a variable that was split to this one."""
        variable.__class__ = cls

    # -- changes --------------------------------------------------------------------------------------------------

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        """Assign to some elements; the shards that have none of them are left alone.

        Raises:
            IndexError: the index is out of range.
            InvalidArgumentError: the value does not fit, or the index is known to the step only.
        """
        assign_items(self, self.variables, index, value)

    def _update(self, rule: str, given: ArrayLike) -> None:
        shape = tuple(canonical(given, self.name, self.dtype).shape)
        if shape and shape != self.shape:
            raise InvalidArgumentError(
                f"{self.name} has shape {self.shape}; a value of shape {shape} cannot be {'assigned' if rule == 'assign' else 'added'} to "
                "it, as it is split among shards. Give a value of the whole shape."
            )
        super()._update(rule, given)

    def checked_rows(self, indices: ArrayLike) -> Array:
        rows = super().checked_rows(indices)
        if rows.ndim != 1:
            raise InvalidArgumentError(
                f"indices of the sharded {self.name} must be a list of rows; got shape {tuple(rows.shape)}. Flatten them."
            )
        return rows

    # -- in a step, as a handle of the same values as its shards --------------------------------------------------

    def overlapping(self) -> Sequence[VariableHandle]:
        return self.variables

    def found_in(self, values: Mapping[Reference, jax.Array], read: Callable[[VariableHandle], jax.Array]) -> jax.Array | None:
        own = values.get(self.ref())
        if own is not None or not any(shard.ref() in values for shard in self.variables):
            return own
        return jnp.concatenate([read(shard) for shard in self.variables], axis=self.placement.axis)

    def put_into(self, values: dict[Reference, jax.Array], value: jax.Array) -> None:
        for shard in self.variables:
            values.pop(shard.ref(), None)
        values[self.ref()] = value


def _checked_shards(variables: object, axis: int) -> list[Variable]:
    """Variables that can be the shards of one.

    Raises:
        TypeError: not a list of variables.
        InvalidArgumentError: they do not fit together.
    """
    if not isinstance(variables, (list, tuple)) or not variables:
        raise TypeError(f"ShardedVariable takes a list of at least one variable; got {type(variables).__name__}.")
    for given in cast("Sequence[object]", variables):
        if not isinstance(given, Variable):
            raise TypeError(f"ShardedVariable takes a list of variables; got a {type(given).__name__} in it.")
    shards = list(cast("Sequence[Variable]", variables))
    first = shards[0]
    if len({shard.dtype for shard in shards}) > 1:
        raise InvalidArgumentError(f"The shards of a variable must have one dtype; got {', '.join(shard.dtype for shard in shards)}.")
    if not -len(first.shape) <= axis < len(first.shape):
        raise InvalidArgumentError(f"axis={axis} is outside of the shape {first.shape} of the first shard.")
    others = {tuple(size for number, size in enumerate(shard.shape) if number != axis % len(first.shape)) for shard in shards}
    if len(others) > 1 or len({len(shard.shape) for shard in shards}) > 1:
        shapes = ", ".join(str(shard.shape) for shard in shards)
        raise InvalidArgumentError(f"The shapes of shards may differ along axis {axis} only; got {shapes}.")
    for shard in shards:
        _require_whole(shard, first)
    return shards


def _require_whole(shard: Variable, first: Variable) -> None:
    placement = shard.placement
    if shard.container is not None or len(placement.cells) > 1 or isinstance(shard, ShardedVariable):
        raise InvalidArgumentError(f"{shard.name} is a shard of another variable, or is sharded itself. Give whole variables of one cell.")
    if placement.store is not first.placement.store:
        raise InvalidArgumentError(f"{shard.name} and {first.name} belong to different strategies; shards belong to one.")
    strategy = placement.store.strategy
    if strategy is not None and strategy.num_replicas_in_sync > 1 and not strategy.is_served:
        raise InvalidArgumentError(f"{shard.name} belongs to a strategy with several replicas. Shards belong to a ParameterServerStrategy.")
