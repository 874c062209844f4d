"""`Variable`: a value that a step may read and update, wherever its strategy put it.

The same object serves a step that is being traced (reads and updates become operations of the program), a function that
runs untraced, and a person at the notebook who wants to see a number. Looking at a value from the notebook takes no
virtual time and changes nothing; assigning from there happens at once.

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.arguments import flag
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.narrowing import canonical
from simdist.program.tracing import active_tracer
from simdist.variables.aggregation import (
    VariableAggregation,
    VariableSynchronization,
    aggregation_of,
    combined_read,
    replica_write,
    synchronization_of,
)
from simdist.variables.arithmetic import Arithmetic
from simdist.variables.scatter import Scatter
from simdist.variables.state import Cell, PlacementRecord

__all__ = ["Placement", "Variable", "VariableAggregation", "VariableSynchronization"]


class Placement:
    """The cells of one variable.

    Attributes:
        cells: its shards in order of rows; or its copies.
        spread: "shards" (the value is their concatenation), "copies" (all equal), or "replicas" (one each, own values).
        combine: for replicas, what a read from outside gives: "sum", "mean", "first" or "none" (an error).
        store: what can assign and look: the strategy's store.
        separate: gives each replica a copy of its own, that may differ from the others.
        across: where replicas of other programs have values of their own, too: gives the combined value.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        store: Any,
        spread: str = "shards",
        combine: str = "first",
        separate: Callable[[Any], None] = lambda variable: None,
        across: Callable[[Any], Any] | None = None,
    ) -> None:
        self.cells = list(cells)
        self.store = store
        self.spread = spread
        self.combine = combine
        self.separate = separate
        self.across = across

    def read_by(self, replica: int) -> list[Cell]:
        """The cells that one replica reads, by its place among those that are driven here."""
        if self.spread == "shards":
            return self.cells
        return [self.cells[replica if self.spread == "replicas" else 0]]

    def changed_by(self, replica: int) -> list[Cell]:
        """The cells that one replica changes: its own, and those that belong to no replica."""
        return [cell for cell in self.cells if cell.replica in (None, replica)]


class Variable(Scatter, Arithmetic):
    """A tensor that can be read, assigned and trained.

    Args:
        initial_value: array of any shape, or a function without arguments that returns one.
        name: for people; default "Variable".
        trainable: whether optimizers should change it; default True, and False with ON_READ.
        synchronization: when copies are brought together; AUTO is ON_WRITE.
        aggregation: how replicas' values become one; default NONE.
        dtype: default: that of the value, floats as float32 and integers as int32.

    Raises:
        InvalidArgumentError: no initial value or one that only a step knows, numbers that the dtype cannot hold, MEAN for integers,
            a trainable variable with ON_READ, or an unknown synchronization or aggregation.
        TypeError: the name is no text, or `trainable` neither True nor False.

    Example:
        >>> import simdist as sd
        >>> v = sd.Variable([1.0, 2.0], name="v")
        >>> v.assign_add([1.0, 1.0])
        >>> v.numpy().tolist()
        [2.0, 3.0]
    """

    def __init__(
        self,
        initial_value: Any = None,
        name: str | None = "Variable",
        trainable: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        dtype: Any = None,
    ) -> None:
        if initial_value is None:
            raise InvalidArgumentError(f"The variable {name!r} has no initial_value. Pass an array, or a function that returns one.")
        self.name = _name_of(name)
        self.synchronization = synchronization_of(synchronization)
        self.aggregation = aggregation_of(aggregation)
        own = self.synchronization is VariableSynchronization.ON_READ
        self.trainable = not own if trainable is None else flag(trainable, "trainable")
        if own and self.trainable:
            raise InvalidArgumentError(
                f"The variable {self.name!r} is trainable, and synchronization ON_READ gives each replica a value of its own, which no "
                "optimizer could keep equal. Use trainable=False, or another synchronization."
            )
        value = _first_value(self.name, initial_value, dtype)
        if self.aggregation is VariableAggregation.MEAN and not jnp.issubdtype(value.dtype, jnp.inexact):
            raise InvalidArgumentError(f"The variable {self.name!r} has the dtype {value.dtype}; MEAN needs a floating one.")
        self.shape, self.dtype = tuple(value.shape), str(value.dtype)
        creator()(self, value)

    # -- values ---------------------------------------------------------------------------------------------------

    @property
    def value(self) -> Any:
        """The present value: a placeholder while a step is traced, otherwise an array."""
        tracer = active_tracer()
        return self.placement.store.look(self) if tracer is None else self.traced_value(tracer)

    def traced_value(self, tracer: Any) -> Any:
        """The value at this place of a step that is being traced."""
        value = tracer.read(self)
        across = tracer.num_replicas > 1 and not tracer.in_replica
        return combined_read(tracer, self, value) if across and self.synchronization is VariableSynchronization.ON_READ else value

    def numpy(self) -> np.ndarray:
        """The present value as a numpy array. Takes no virtual time."""
        if active_tracer() is not None:
            raise FailedPreconditionError(f"{self.name}.numpy() was called while a step is traced, where it has no number yet. Use .value.")
        return np.asarray(self.placement.store.look(self))

    def assign(self, value: Any) -> None:
        """Replace the value. In a step this is an operation of the program.

        Raises:
            InvalidArgumentError: another shape, or numbers that the variable's dtype cannot hold.
        """
        self._update("assign", value)

    def assign_add(self, delta: Any) -> None:
        """Add to the value, where it lives: increments of several workers are never lost."""
        self._update("add", delta)

    def assign_sub(self, delta: Any) -> None:
        """Subtract from the value, where it lives."""
        self._update("add", jnp.negative(canonical(delta, self.name, self.dtype)))

    def _update(self, rule: str, operand: Any) -> None:
        self._require_sensible(rule, operand)
        operand = canonical(operand, self.name, self.dtype)
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
            self.placement.store.update(rule, [self], [operand])

    def _require_sensible(self, rule: str, operand: Any) -> None:
        tracer = active_tracer()
        summed = self.aggregation is VariableAggregation.SUM and self.synchronization is not VariableSynchronization.ON_READ
        if tracer is None or not tracer.in_replica or tracer.num_replicas == 1:
            return
        # In a step that knows which replica it is, a number may well differ from those of the others.
        if summed and not tracer.is_rank_dependent and type(operand) in (int, float):
            raise InvalidArgumentError(
                f"{self.name} has aggregation SUM, and every replica was about to {rule} the constant {operand}: the sum would be "
                f"{tracer.num_replicas} times as much. Give the value that this replica contributes, as an array, or use aggregation MEAN."
            )

    def aggregated(self, tracer: Any, rule: str, operand: Any) -> Any:
        return replica_write(tracer, self, rule, operand)

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The task (or tasks, with commas between them) on which the value lies."""
        return ",".join(dict.fromkeys(device for cell in self.placement.cells for device in cell.devices))

    def placements(self) -> list[PlacementRecord]:
        """Where each piece lies; one record for each cell and each place that has a copy of it."""
        cells, sharded = self.placement.cells, self.placement.spread == "shards"
        numbered = enumerate(cells) if sharded else ((0, cell) for cell in cells)
        return [self._record(cell, shard, len(cells) if sharded else 1, device) for shard, cell in numbered for device in cell.devices]

    def _record(self, cell: Cell, shard: int, num_shards: int, device: str) -> PlacementRecord:
        rows = cell.rows or (0, self.shape[0] if self.shape else 1)
        size = cell.aval.size_bytes
        return PlacementRecord(self.name, self.shape, self.dtype, shard, num_shards, device, *rows, size, cell.kind)

    def __jax_array__(self) -> Any:
        return self.value

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.numpy(), dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, shape={self.shape}, dtype={self.dtype!r}, on={self.device!r})"


def _name_of(name: Any) -> str:
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"the name of a variable is {name!r}; expected text")
    return "Variable" if name is None else name


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(own in (1, whole) for own, whole in zip(shape[::-1], to[::-1], strict=False))


def _first_value(name: str, given: Any, dtype: Any) -> Any:
    """The number itself, also where a variable is made by a step that is being traced."""
    with jax.ensure_compile_time_eval():
        value = given() if callable(given) else given
        if isinstance(getattr(value, "value", value), jax.core.Tracer):
            raise InvalidArgumentError(
                f"The initial_value of {name!r} was computed in a step, where it has no number yet. Give a function that computes it, "
                f"sd.Variable(lambda: ...), or make the variable outside of the step."
            )
        return canonical(value, name, dtype)


Creator = Callable[[Variable, Any], None]
_creators: list[Callable[[], Creator]] = []


def creator() -> Creator:
    """What places a new variable: the strategy in scope, found by the function that the strategies registered."""
    return _creators[-1]()


def register_creator(find: Callable[[], Creator]) -> None:
    """Tell variables how to find the strategy that places them; called once, by the strategies."""
    _creators.append(find)
