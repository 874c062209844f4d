"""`Variable`: a value that a step can read and update, on the devices that its strategy chose.

The same object serves a step that is being traced (reads and updates become operations of the program), a function that
runs untraced, and code of the notebook: there a read takes no virtual time and changes nothing; an assignment happens at once.

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from simdist.arguments import flag
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike, DTypeLike, HostArray
from simdist.program.narrowing import canonical, require_known
from simdist.program.operations import ReplicaTrace
from simdist.program.scope import current_scope
from simdist.program.tracing import Tracer, active_tracer
from simdist.variables.aggregation import (
    VariableAggregation,
    VariableSynchronization,
    aggregation_of,
    combined_read,
    is_sum_of_replicas,
    mean_of_replicas,
    no_first_replica,
    of_first_replica,
    replica_write,
    synchronization_of,
)
from simdist.variables.arithmetic import Arithmetic
from simdist.variables.first_value import checked_dtype, first_value
from simdist.variables.initial_shards import Initializer, Partitioning, initial_shards, takes_partitions
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.overlapping import Overlapping
from simdist.variables.placement import Placement
from simdist.variables.placement_record import PlacementRecord
from simdist.variables.reachability import Reachable
from simdist.variables.read_cache import cached_read
from simdist.variables.scatter import Scatter
from simdist.variables.state import Cell

__all__ = ["Variable", "VariableAggregation", "VariableSynchronization"]


class Variable(Reachable, Scatter, Overlapping, Arithmetic):
    """A tensor that can be read, assigned and trained.

    Args:
        initial_value: array (p...) of any shape, or a function without arguments that returns one.
        name: shown in the shard map and in errors; default "Variable".
        trainable: whether optimizers should change it; default True, and False with ON_READ.
        synchronization: when copies are aggregated; AUTO is ON_WRITE.
        aggregation: how replicas' values become one; default NONE.
        dtype: default: that of the value, floats as float32 and integers as int32. A wider float is warned of, unless JAX has x64 on.
        shape: default: that of the value. An initial value that is a function of `partition_shape` and `partition_offset` is then
            called for each shard alone.
        per_worker_variable: True gives every worker of a `ParameterServerStrategy` a copy of its own (`PerWorkerVariable`).

    Raises:
        InvalidArgumentError: no initial value or one that only a step knows, numbers that the dtype cannot hold, another shape, MEAN for
            integers, SUM for truth values, a trainable variable with ON_READ or one of each worker, or an unknown synchronization or
            aggregation.
        TypeError: the name is no text, the dtype none that JAX has, or `trainable` neither True nor False.

    Example:
        >>> import simdist as sd
        >>> v = sd.Variable([1.0, 2.0], name="v")
        >>> v.assign_add([1.0, 1.0])
        >>> v.numpy().tolist()
        [2.0, 3.0]
    """

    placement: Placement[Variable]
    keras_variable: KerasVariable | None = None  # the variable of Keras that has its value here
    per_worker = False
    companions: Mapping[str, Variable] = MappingProxyType({})  # what its strategy keeps beside it from step to step, by name
    beginning: Callable[[], ArrayLike] | None = None  # of a companion: its value where nothing of it was kept

    def __init__(
        self,
        initial_value: ArrayLike | Callable[[], ArrayLike] | None = None,
        name: str | None = "Variable",
        trainable: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        dtype: DTypeLike | None = None,
        shape: Sequence[int] | None = None,
        per_worker_variable: bool = False,
    ) -> None:
        if initial_value is None:
            raise InvalidArgumentError(f"The variable {name!r} has no initial_value. Pass an array, or a function that returns one.")
        self.name = _name_of(name)
        self.synchronization = synchronization_of(synchronization)
        self.aggregation = aggregation_of(aggregation)
        self.per_worker = flag(per_worker_variable, "per_worker_variable")
        own = self.synchronization is VariableSynchronization.ON_READ or self.per_worker
        self.trainable = not own if trainable is None else flag(trainable, "trainable")
        if own and self.trainable:
            what = "per_worker_variable=True" if self.per_worker else "synchronization ON_READ"
            raise InvalidArgumentError(
                f"The variable {self.name!r} is trainable, and {what} gives each replica a value of its own, which no "
                "optimizer could keep equal. Use trainable=False, or another synchronization."
            )
        dtype = checked_dtype(self.name, dtype)
        if shape is not None and takes_partitions(initial_value):
            self.shape, self.dtype = tuple(shape), str(canonical(0, self.name, dtype or "float32").dtype)
            scope, make = current_scope(), cast("Initializer", initial_value)
            ranges = scope.ranges_of(self) if isinstance(scope, Partitioning) else []
            initial_value = partial(initial_shards, self.name, make, self.shape, ranges)
        value = first_value(self.name, initial_value, dtype)
        if shape is not None and tuple(shape) != tuple(value.shape):
            raise InvalidArgumentError(f"The variable {self.name!r} was given shape={tuple(shape)} and a value of shape {value.shape}.")
        if self.aggregation is VariableAggregation.MEAN and not jnp.issubdtype(value.dtype, jnp.inexact):
            raise InvalidArgumentError(f"The variable {self.name!r} has the dtype {value.dtype}; MEAN needs a floating one.")
        if self.aggregation is VariableAggregation.SUM and value.dtype == bool:
            raise InvalidArgumentError(f"The variable {self.name!r} has the dtype bool; SUM needs numbers, such as those of dtype='int32'.")
        self.shape, self.dtype = tuple(value.shape), str(value.dtype)
        current_scope().create(self, value)

    # -- values ---------------------------------------------------------------------------------------------------

    @property
    def value(self) -> Array:
        """The present value: a placeholder while a step is traced, otherwise an array."""
        tracer = active_tracer()
        return self.placement.store.observe(self) if tracer is None else self.traced_value(tracer)

    def traced_value(self, tracer: Tracer) -> jax.Array:
        """The value at this point of a step that is being traced."""
        value = cached_read(self, self.placement.store, tracer, lambda: tracer.read(self))
        if tracer.num_replicas == 1 or tracer.in_replica or self.is_served:
            return value
        if self.synchronization is VariableSynchronization.ON_READ:
            return combined_read(tracer, self, value)
        if not self.has_differing_copies:
            tracer.common_reads.add(self.ref())
            return value
        if self.placement.is_mean_of_replicas:
            return mean_of_replicas(tracer, value, self.name) if jnp.issubdtype(self.dtype, jnp.inexact) else value
        if tracer.reads_each_copy:
            return value
        if len(self.placement.cells) < tracer.num_replicas:
            raise no_first_replica(self)
        return of_first_replica(tracer, value, self.name)

    def numpy(self) -> HostArray:
        """The present value as a numpy array. Takes no virtual time."""
        if active_tracer() is not None:
            raise FailedPreconditionError(f"{self.name}.numpy() was called while a step is traced, where it has no number yet. Use .value.")
        return np.asarray(self.placement.store.observe(self))

    def assign(self, value: ArrayLike) -> None:
        """Replace the value. In a step this is an operation of the program.

        Raises:
            InvalidArgumentError: another shape, or numbers that the variable's dtype cannot hold.
        """
        self._update("assign", value)

    def assign_add(self, delta: ArrayLike) -> None:
        """Add to the value, on the tasks that hold it: increments of several workers are never lost."""
        self._update("add", delta)

    def assign_sub(self, delta: ArrayLike) -> None:
        """Subtract from the value, on the tasks that hold it.

        Raises:
            InvalidArgumentError: of a variable of bool; or as `assign_add` does.
        """
        if self.dtype == "bool":
            raise InvalidArgumentError(f"Nothing can be subtracted from {self.name}, which is of bool. Assign what it is to become.")
        self._require_sensible("subtract", delta)
        self._update("add", jnp.negative(canonical(delta, self.name, self.dtype)))

    def _update(self, rule: str, given: ArrayLike) -> None:
        self._require_sensible(rule, given)
        operand = canonical(given, self.name, self.dtype)
        if tuple(operand.shape) != self.shape and not (rule == "add" and _broadcasts(operand.shape, self.shape)):
            raise InvalidArgumentError(
                f"{self.name} has shape {self.shape}; a value of shape {tuple(operand.shape)} cannot be "
                f"{'assigned' if rule == 'assign' else 'added'} to it."
            )
        operand = jnp.broadcast_to(operand, self.shape)
        tracer = active_tracer()
        if tracer is not None:
            tracer.update(rule, [self], [operand])
        else:
            require_known(operand, self.name)
            self.placement.store.update(rule, [self], [operand])

    def _require_sensible(self, rule: str, operand: ArrayLike) -> None:
        tracer = active_tracer()
        summed = self.aggregation is VariableAggregation.SUM and self.synchronization is not VariableSynchronization.ON_READ
        if tracer is None or not tracer.in_replica or tracer.num_replicas == 1:
            return
        # In a step that knows which replica it is, a number may well differ from those of the others.
        if summed and not tracer.is_rank_dependent and isinstance(operand, (int, float)):
            raise InvalidArgumentError(
                f"{self.name} has aggregation SUM, and every replica was about to {rule} the constant {operand}: the sum would be "
                f"{tracer.num_replicas} times as much. Give the value that this replica contributes, as an array, or use aggregation MEAN."
            )

    def aggregated(self, tracer: ReplicaTrace, rule: str, operand: jax.Array) -> jax.Array:
        if tracer.has_no_rows and self.synchronization is VariableSynchronization.ON_READ and not self.is_served:
            operand = tracer.finite(rule, self, operand)  # statistics of nothing
        return replica_write(tracer, self, rule, operand)

    def unseen_value(self) -> Array:
        return self.placement.store.unseen_value(self)

    @property
    def is_served(self) -> bool:
        """Whether it has one value for all replicas, on servers."""
        strategy = self.placement.store.strategy
        return strategy is not None and strategy.is_served

    @property
    def moves_rows(self) -> bool:
        strategy = self.placement.store.strategy
        return strategy is not None and strategy.moves_rows and bool(self.shape) and not self.placement.axis

    @property
    def has_differing_copies(self) -> bool:
        return self.placement.spread == "replicas"

    @property
    def assigned_with(self) -> Hashable:
        return None if self._changes_apart else (self.synchronization, self.aggregation, self.placement.store)

    @property
    def _changes_apart(self) -> bool:
        """Whether each change is an update of its own. In rounds it is: the updates of closures are combined group by group, and one that
        changes other variables than theirs, or makes one group of several while a round is under way, would not be combined with them.
        """
        strategy = self.placement.store.strategy
        return strategy is not None and strategy.averages_updates and not is_sum_of_replicas(self)

    def separate(self) -> None:
        """Give each replica a copy of its own, which may differ from the others from now on."""
        self.placement.separate(self)

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The task that holds the value (or tasks, with commas between them)."""
        return ",".join(dict.fromkeys(device for cell in self.placement.cells for device in cell.devices))

    def placements(self) -> list[PlacementRecord]:
        """The placement of each piece: one record for each cell and each device that has a copy of it."""
        cells, sharded = self.placement.cells, self.placement.spread == "shards"
        numbered = enumerate(cells) if sharded else ((0, cell) for cell in cells)
        return [self._record(cell, shard, len(cells) if sharded else 1, device) for shard, cell in numbered for device in cell.devices]

    def _record(self, cell: Cell, shard: int, num_shards: int, device: str) -> PlacementRecord:
        part = self.placement.range_of(cell)
        rows = (0, self.shape[0] if self.shape else 1) if part is None else (part.start, part.stop)
        size, axis = cell.aval.size_bytes, self.placement.axis
        return PlacementRecord(self.name, self.shape, self.dtype, shard, num_shards, device, *rows, size, cell.kind, axis, cell.slot_of)

    def __jax_array__(self) -> jax.Array:
        return jnp.asarray(self.value)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        return np.array(self.numpy(), dtype, copy=copy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, shape={self.shape}, dtype={self.dtype!r}, on={self.device!r})"


def _name_of(name: object) -> str:
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"the name of a variable is {name!r}; expected text")
    return "Variable" if name is None else name


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(own in (1, whole) for own, whole in zip(shape[::-1], to[::-1], strict=False))
