"""The idea of a strategy: where variables lie, where steps run, and how replicas combine.

A strategy owns the store of its variables and says, for each new variable, on which tasks its cells go. Everything else
(reading, updating, what that costs) follows from the cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import Any

import jax.numpy as jnp

from simdist.data import InputContext, seeds
from simdist.errors import FailedPreconditionError, InvalidArgumentError, ResourceExhaustedError
from simdist.program.values import aval_of
from simdist.runtime.cluster import Cluster
from simdist.runtime.store import Store
from simdist.simulation.streams import derive_seed
from simdist.simulation.task_context import active_context, current_seed
from simdist.strategies import context
from simdist.variables.state import Cell, PlacementRecord
from simdist.variables.variable import Placement, Variable, register_creator

__all__ = ["DistributedFromFunction", "ReduceOp", "Strategy"]


class ReduceOp(Enum):
    """How values of several replicas become one."""

    SUM = "sum"
    MEAN = "mean"


class DistributedFromFunction:
    """Datasets that each input pipeline makes for itself by calling a function with its `InputContext`."""

    def __init__(self, dataset_fn: Callable[[InputContext], Any], options: Any = None) -> None:
        self.dataset_fn = dataset_fn
        self.options = options


class Strategy:
    """Common to all strategies.

    Args:
        cluster: where it runs; None makes one of this machine alone.
    """

    def __init__(self, cluster: Cluster | None) -> None:
        self.cluster = cluster if cluster is not None else Cluster({"worker": 1})
        self.runtime = self.cluster.runtime
        self.store = Store(self.runtime.ledger, self._observed, self.runtime.hold)
        self.variables: list[Variable] = []
        self.names: dict[str, int] = defaultdict(int)  # how often Keras has used each automatic name in this scope
        self._seeds_drawn = 0
        self.runtime.lost.append(lambda task: self.store.layout.lose(task.name))

    def _observed(self, name: str) -> None:
        self.runtime.trace.instant(self.runtime.chief.name, "observe", name, self.runtime.now)

    def next_seed(self) -> int:
        """A seed for something that was made without one, in the order of making."""
        self._seeds_drawn += 1
        return 1 + derive_seed(self.cluster.seed, "strategy", self._seeds_drawn) % 1_000_000_000

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_replicas_in_sync} in sync, {len(self.variables)} variables, on {self.cluster!r})"

    # -- scope ----------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Variables, models, optimizers and metrics that are made inside belong to this strategy.

        Raises:
            FailedPreconditionError: another strategy's scope is open.
        """
        stack = active_context().strategies
        if stack and stack[-1] is not self:
            raise FailedPreconditionError(
                f"The scope of {type(stack[-1]).__name__} is open; close it before opening that of {type(self).__name__}."
            )
        with ExitStack() as hooks:
            stack.append(self)
            hooks.callback(stack.remove, self)
            for hook in context.scope_hooks:
                hooks.enter_context(hook(self))
            yield self

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas compute one step together."""
        return 1

    # -- variables ------------------------------------------------------------------------------------------------

    def create(self, variable: Variable, value: Any) -> None:
        """Place a new variable, with this first value."""
        layout = self.store.layout
        before = len(layout.groups)
        try:
            variable.placement = self.place(variable, value)
        except ResourceExhaustedError:
            layout.take_back(before)
            raise
        self.variables.append(variable)
        for record in variable.placements():
            facts = {"shard": record.shard, "rows": [record.row_start, record.row_stop], "bytes": record.size_bytes}
            self.runtime.trace.instant(record.task, "place", variable.name, self.runtime.now, **facts)

    def place(self, variable: Variable, value: Any) -> Placement:
        """The cells of a new variable."""
        return self.whole(variable, value, self.home)

    @property
    def home(self) -> str:
        """The task that holds variables which lie in one place."""
        return "worker:0" if "worker:0" in self.runtime.tasks else self.runtime.chief.name

    def whole(self, variable: Variable, value: Any, task: str, kind: str = "parameter") -> Placement:
        """A placement of one cell."""
        cell = Cell(variable.name, aval_of(value), task, kind=kind)
        self.store.layout.add(cell, value)
        return Placement([cell], self.store)

    def placements(self) -> list[PlacementRecord]:
        """Where every piece of every variable lies: the shard map."""
        records = [record for variable in self.variables for record in variable.placements()]
        known = {id(cell) for variable in self.variables for cell in variable.placement.cells}
        return records + [cell.record() for cell in self.store.layout.cells() if id(cell) not in known]

    # -- running --------------------------------------------------------------------------------------------------

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Run a function for every replica.

        Raises:
            InvalidArgumentError: args is not a list or tuple.
        """
        if not isinstance(args, (list, tuple)):
            raise InvalidArgumentError(f"args must be a list or tuple of the arguments; got {type(args).__name__}.")
        contexts = active_context().locals.setdefault("replica_contexts", [])
        contexts.append(context.ReplicaContext(self))
        try:
            return fn(*args, **(kwargs or {}))
        finally:
            contexts.pop()

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | None = None) -> Any:
        """Combine the replicas' values, and the given axis of each with them.

        Args:
            reduce_op: SUM or MEAN.
            value: what `run` returned.
            axis: None keeps the shape of one replica's value; an integer also reduces over that axis.
        """
        context.require_cross_replica("strategy.reduce")
        op = ReduceOp(str(reduce_op.value if isinstance(reduce_op, ReduceOp) else reduce_op).lower())
        if axis is None:
            return value
        return jnp.sum(value, axis=axis) if op is ReduceOp.SUM else jnp.mean(value, axis=axis)

    def all_reduce_in_replica(self, op: Any, value: Any) -> Any:
        """Combine values inside `run`; with one replica, the value itself."""
        return value

    def local_results(self, value: Any) -> tuple[Any, ...]:
        """The replicas' values, as a tuple."""
        return (value,)

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Any], options: Any = None) -> DistributedFromFunction:
        """Datasets that each worker makes by itself from an `InputContext`.

        Raises:
            TypeError: not a function.
        """
        if not callable(dataset_fn):
            raise TypeError(f"distribute_datasets_from_function takes a function of an InputContext; got {type(dataset_fn).__name__}.")
        return DistributedFromFunction(dataset_fn, options)

    experimental_local_results = local_results
    experimental_distribute_datasets_from_function = distribute_datasets_from_function


def _creator() -> Callable[[Variable, Any], None]:
    return context.get_strategy().create


register_creator(_creator)


def _shuffle_seed(purpose: str) -> int:
    """A shuffle without a seed draws from the stream of the task that makes it; in the notebook it is 0."""
    return current_seed() or 0


seeds.default_seed = _shuffle_seed
