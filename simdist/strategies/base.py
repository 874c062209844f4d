"""The idea of a strategy: where variables lie, where steps run, and how replicas combine.

A strategy owns the store of its variables and says, for each new variable, on which tasks its cells go. Everything else
(reading, updating, what that costs) follows from the cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from simdist.data import Dataset, InputContext, seeds
from simdist.errors import FailedPreconditionError, InvalidArgumentError, ResourceExhaustedError
from simdist.program.per_replica import OwnValue, PerReplica, of_replica, spread
from simdist.program.tracing import active_tracer
from simdist.program.values import aval_of
from simdist.runtime.cluster import Cluster
from simdist.runtime.store import Store
from simdist.simulation.streams import derive_seed
from simdist.simulation.task_context import active_context, current_seed
from simdist.strategies import context, reduction
from simdist.strategies.extended import StrategyExtended
from simdist.strategies.reduction import ReduceOp, reduce_op_of
from simdist.variables.state import Cell, PlacementRecord
from simdist.variables.variable import Placement, Variable, register_creator

__all__ = ["DistributedFromFunction", "ReduceOp", "Strategy", "ValueContext"]


class DistributedFromFunction:
    """Datasets that each input pipeline makes for itself by calling a function with its `InputContext`."""

    def __init__(self, dataset_fn: Callable[[InputContext], Any], options: Any = None) -> None:
        self.dataset_fn = dataset_fn
        self.options = options


@dataclass(frozen=True)
class ValueContext:
    """For which replica a value is made.

    Args:
        replica_id_in_sync_group: from 0.
        num_replicas_in_sync: how many take a step together.
    """

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1


class Strategy:
    """Common to all strategies.

    Args:
        cluster: where it runs; None makes one of this machine alone.
    """

    def __init__(self, cluster: Cluster | None) -> None:
        self.cluster = cluster if cluster is not None else self.own_cluster()
        self.runtime = self.cluster.runtime
        self.store = Store(self.runtime.ledger, self._observed, self.runtime.hold, self)
        self.variables: list[Variable] = []
        self.names: dict[str, int] = defaultdict(int)  # how often Keras has used each automatic name in this scope
        self._seeds_drawn = 0
        self.runtime.lost.append(lambda task: self.store.layout.lose(task.name))

    def own_cluster(self) -> Cluster:
        """A cluster of this machine alone, for a strategy that was given none."""
        return Cluster({"worker": 1})

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
        tracer = active_tracer()
        twin = None if tracer is None else tracer.twin_of(variable)
        if twin is not None:
            variable.placement = twin.placement
            return
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

    beside: Variable | None = None
    launched = False
    """Whether every worker has a main of its own that drives it."""
    num_workers = 1
    worker_index = 0

    @property
    def devices(self) -> list[str]:
        """The devices that compute."""
        return [self.home]

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that hold variables."""
        return self.devices

    @property
    def is_chief(self) -> bool:
        """Whether this program saves checkpoints."""
        return True

    def update_copies(self, variable: Variable, fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], group: bool) -> Any:
        """See `StrategyExtended.update`."""
        result = fn(variable, *args, **kwargs)
        return None if group else result

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

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None, options: Any = None) -> Any:
        """Run a function for every replica.

        Args:
            fn: what each replica does.
            args: its arguments, as a list or tuple; of a `PerReplica` each replica gets its own value, anything else goes to all.
            kwargs: further arguments, likewise.
            options: accepted for tf.distribute's sake; without effect.

        Returns:
            What the replicas returned: `PerReplica` values, or with one replica the value itself.

        Raises:
            InvalidArgumentError: args is not a list or tuple.
            FailedPreconditionError: called inside another `run`.
        """
        if not isinstance(args, (list, tuple)):
            raise InvalidArgumentError(f"args must be a list or tuple of the arguments; got {type(args).__name__}. Write args=(x,).")
        context.require_cross_replica("strategy.run")
        if active_tracer() is None and self.num_replicas_in_sync > 1:
            return self.eagerly(lambda: self.run(fn, args, kwargs), getattr(fn, "__name__", "run"))
        context.require_stepping(self)
        with context.replica(self):
            result = fn(*self._own(list(args)), **self._own(kwargs or {}))
        return spread(result) if active_tracer() is not None else result

    def require_own_run(self, variable: Any) -> None:
        """A variable of this strategy is used; raise if that happens in a replica of another one.

        Raises:
            FailedPreconditionError: it does.
        """
        running = context.running_strategy()
        if running is not None and running is not self and not context.is_default(self):
            raise FailedPreconditionError(
                f"Mixing different strategies: {variable.name} was made in the scope of {self!r}, but is used inside the run of "
                f"{running!r}. Make the variable in that strategy's scope."
            )

    def _own(self, arguments: Any) -> Any:
        """What one replica gets of these arguments."""
        tracer = active_tracer()

        def of_this_replica(leaf: Any) -> Any:
            # Only an argument from outside the step has the values of all replicas; which is ours makes a difference.
            foreign = isinstance(leaf, PerReplica) and not isinstance(leaf, OwnValue)
            return of_replica(leaf, self.place_of(tracer.rank) if foreign and tracer is not None and tracer.num_replicas > 1 else 0)

        return jax.tree_util.tree_map(of_this_replica, arguments, is_leaf=lambda x: isinstance(x, PerReplica))

    def eagerly(self, fn: Callable[[], Any], name: str) -> Any:
        """Run a function as a step of its own, once; for strategies with several replicas."""
        raise NotImplementedError

    def observe(self, look: Callable[[], Any]) -> Any:
        """What a look at variables gives, all of it at once: where workers have values of their own, in one exchange."""
        return look()

    def place_of(self, rank: int) -> int:
        """The place of a replica among those that this program drives."""
        return rank

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | Sequence[int] | None) -> Any:
        """Combine the replicas' values, and the given axes of each with them.

        Args:
            reduce_op: SUM or MEAN, or its name in any case.
            value: what `run` returned, or a structure of such values.
            axis: None keeps the shape of one replica's value; an axis, or several, are also reduced over. A mean over an axis
                weighs every element equally, whichever replica has it.

        Raises:
            InvalidArgumentError: another operation, an axis out of range, different shapes, or SUM of what all replicas share.
            FailedPreconditionError: called inside `run`.
        """
        context.require_cross_replica("strategy.reduce")
        context.require_stepping(self)
        return reduction.reduce(reduce_op_of(reduce_op), self._each(value), axis, self.num_replicas_in_sync)

    def gather(self, value: Any, axis: int) -> Any:
        """Join the replicas' values along an axis, in the order of the replicas; lengths along it may differ.

        Raises:
            InvalidArgumentError: scalars, different numbers of axes, or an axis out of range.
            FailedPreconditionError: called inside `run`.
        """
        context.require_cross_replica("strategy.gather")
        context.require_stepping(self)
        return reduction.gather(self._each(value), axis)

    def _each(self, value: Any) -> Any:
        """A structure with a `PerReplica` in place of each variable of which every replica has a value of its own."""
        tracer = active_tracer()

        def values(leaf: Any) -> Any:
            variable = getattr(leaf, "simdist_variable", leaf)
            placement = getattr(variable, "placement", None)
            if placement is None or placement.spread != "replicas" or placement.store is not self.store:
                return leaf
            return PerReplica(self.local_results(leaf)) if tracer is None else OwnValue(tracer, tracer.read(variable))

        return jax.tree_util.tree_map(values, value, is_leaf=lambda x: isinstance(x, PerReplica))

    def local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of the replicas that this program drives, as a tuple; a plain value as a tuple of one."""
        context.require_stepping(self)
        leaves, structure = jax.tree_util.tree_flatten(value, is_leaf=lambda x: isinstance(x, PerReplica))
        if not any(isinstance(leaf, PerReplica) for leaf in leaves):
            return self._own_values(value)
        count = len(next(leaf for leaf in leaves if isinstance(leaf, PerReplica)).values)
        return tuple(jax.tree_util.tree_unflatten(structure, [of_replica(leaf, place) for leaf in leaves]) for place in range(count))

    def _own_values(self, value: Any) -> tuple[Any, ...]:
        """A variable gives the value that each replica has, its own or a copy."""
        variable = getattr(value, "simdist_variable", value)
        placement = getattr(variable, "placement", None)
        if placement is None or placement.store is not self.store:
            return (value,)
        if placement.spread == "replicas":
            return tuple(self.store.cell_value(variable, cell) for cell in placement.cells)
        return (value,) if len(self.ranks) == 1 else (self.store.look(variable),) * len(self.ranks)

    # -- in a replica ---------------------------------------------------------------------------------------------

    def all_reduce_in_replica(self, op: Any, value: Any, options: Any = None) -> Any:
        """See `ReplicaContext.all_reduce`."""
        return reduction.all_reduce(reduce_op_of(op), value, options)

    def all_gather_in_replica(self, value: Any, axis: int, options: Any = None) -> Any:
        """See `ReplicaContext.all_gather`."""
        return reduction.all_gather(value, axis, options)

    def merge_in_replica(self, merge_fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """See `ReplicaContext.merge_call`."""
        if not isinstance(args, (list, tuple)):
            raise InvalidArgumentError(f"args must be a list or tuple of the arguments; got {type(args).__name__}. Write args=(x,).")
        traced = active_tracer() is not None
        with context.across_replicas():
            given = [spread(arg) if traced else arg for arg in args]
            result = merge_fn(self, *given, **{name: spread(arg) if traced else arg for name, arg in kwargs.items()})
        return self._own(result)

    # -- input ----------------------------------------------------------------------------------------------------

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Any], options: Any = None) -> Any:
        """Datasets that each input pipeline makes by itself from an `InputContext`; their batches are not split.

        Raises:
            TypeError: not a function.
        """
        if not callable(dataset_fn):
            raise TypeError(f"distribute_datasets_from_function takes a function of an InputContext; got {type(dataset_fn).__name__}.")
        return DistributedFromFunction(dataset_fn, options)

    def numpy_dataset(self, arrays: Any) -> Dataset:
        """A dataset with one element for each row of the arrays."""
        return Dataset.from_tensor_slices(arrays)

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """A value for each replica: ``value_fn(context)`` is called with each `ValueContext` in turn.

        Example:
            >>> import simdist as sd
            >>> sd.MirroredStrategy(2).distribute_values_from_function(lambda context: 10 * context.replica_id_in_sync_group)
            PerReplica(0, 10)
        """
        context.require_cross_replica("distribute_values_from_function")
        ranks, total = self.ranks, self.num_replicas_in_sync
        values = [value_fn(ValueContext(rank, total)) for rank in ranks]
        return values[0] if len(values) == 1 else PerReplica(values)

    @property
    def ranks(self) -> range:
        """The replicas that this program drives."""
        return range(self.num_replicas_in_sync)

    @property
    def extended(self) -> StrategyExtended:
        """What library authors need: updating variables, where things lie."""
        return StrategyExtended(self)

    experimental_local_results = local_results
    experimental_make_numpy_dataset = numpy_dataset
    experimental_distribute_datasets_from_function = distribute_datasets_from_function
    experimental_distribute_values_from_function = distribute_values_from_function


def _creator() -> Callable[[Variable, Any], None]:
    return context.get_strategy().create


register_creator(_creator)


def _shuffle_seed(purpose: str) -> int:
    """A shuffle without a seed draws from the stream of the task that makes it; in the notebook it is 0."""
    return current_seed() or 0


seeds.default_seed = _shuffle_seed
