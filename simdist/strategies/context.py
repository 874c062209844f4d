"""Which strategy is in scope, and whether code runs for one replica or across them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from simdist.arguments import shown
from simdist.errors import FailedPreconditionError
from simdist.process_state import TaskLocal
from simdist.program.batch_rows import BatchRows, common_size
from simdist.program.global_sizes import GlobalSize
from simdist.program.scope import Scope, chosen_scope, current_scope, is_default, is_opened, open_scopes, running
from simdist.program.tracing import active_tracer
from simdist.runtime.work import running_closure

__all__ = [
    "ReplicaContext",
    "StepBelongsTo",
    "experimental_set_strategy",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
    "is_default",
    "strategy_of_models",
]


class ReplicaContext:
    """What code knows that runs for one replica.

    Args:
        strategy: whose replica it is.
        parts: the rows of the batches that it was given parts of; None: it was given none.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(devices=2)
        >>> strategy.run(lambda: sd.get_replica_context().replica_id_in_sync_group)
        PerReplica(0, 1)
    """

    def __init__(self, strategy: Any, parts: BatchRows | None = None) -> None:
        self.strategy = strategy
        self.parts = BatchRows() if parts is None else parts

    @property
    def replica_id_in_sync_group(self) -> int:
        """0 to n - 1. A step that asks is traced once for each replica."""
        tracer = active_tracer()
        return 0 if tracer is None or tracer.num_replicas == 1 else tracer.rank

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas take a step together."""
        return self.strategy.num_replicas_in_sync

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of this replica."""
        return (self.strategy.extended.worker_devices[self.replica_id_in_sync_group],)

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """The sum or the mean of the values of all replicas.

        Args:
            reduce_op: SUM or MEAN, or its name. A sum has the dtype of the values (`ReduceOp`): int8 wraps around.
            value: a structure of arrays, of the same shapes on every replica.
            options: `CommunicationOptions` for this call. With `bytes_per_pack` the arrays travel in packs, the last one first, as the
                gradients of an optimizer do.

        Raises:
            InvalidArgumentError: another operation, or the replicas give different shapes; or other options of gradients.
        """
        return self.strategy.all_reduce_in_replica(reduce_op, value, options)

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """The values of all replicas, one after the other along an axis.

        Where lengths differ, each replica sends as many bytes as the longest array has, as TensorFlow fills up the others. The span of a
        replica in the trace has the bytes of its own array.

        Args:
            value: a structure of arrays; lengths along the axis may differ.
            axis: from 0; negative counts from the end.

        Raises:
            InvalidArgumentError: a scalar, an axis that is not there, or options with the algorithm of an all-reduce.
        """
        return self.strategy.all_gather_in_replica(value, axis, options)

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call a function once across the replicas: ``merge_fn(strategy, *args)`` gets arrays as `PerReplica`, and variables as they are.

        Returns:
            What it returned; of a `PerReplica`, the value of this replica.
        """
        return self.strategy.merge_in_replica(merge_fn, args, {} if kwargs is None else kwargs)

    def global_batch_size(self, own_rows: int) -> int:
        """Rows of the whole batch of which this replica has `own_rows`: exact where the step took it from a distributed dataset.

        Where not all of them have the rows of their parts of a batch, it is what they have together, or `own_rows` for each replica of
        which another main knows.

        Raises:
            InvalidArgumentError: it has as many rows of batches of different sizes.
        """
        tracer, candidates = active_tracer(), [self.parts]
        if tracer is not None and (own_rows in self.parts.unknown or not self.parts.sizes_of(own_rows)):
            candidates.append(tracer.global_rows)
        size = common_size(own_rows, candidates)
        if tracer is not None:
            number = len(tracer.global_sizes)
            tracer.global_sizes.append(GlobalSize(own_rows, size))
            joint = tracer.joint_sizes[number : number + 1]
            size = joint[0] if joint and joint[0] is not None else size
        return own_rows * self.num_replicas_in_sync if size is None else size


# For which replica code runs, the innermost last; None: across replicas, though a replica called it.
_replicas: TaskLocal[list[ReplicaContext | None]] = TaskLocal(list)
# The strategy for which a step is traced.
_traced_for: TaskLocal[Scope | None] = TaskLocal(lambda: None)
# Closes the scope that `experimental_set_strategy` has opened.
_chosen: TaskLocal[ExitStack | None] = TaskLocal(lambda: None)


class StepBelongsTo(Exception):
    """A step that was traced for the default strategy uses another one, which should run it."""

    def __init__(self, owner: Scope) -> None:
        super().__init__(owner)
        self.owner = owner


@contextmanager
def stepping(strategy: Any) -> Iterator[None]:
    """A step is traced for this strategy."""
    with _traced_for.replaced(strategy):
        yield


def require_stepping(strategy: Any) -> None:
    """Make sure that the step which is being traced runs under this strategy.

    Raises:
        StepBelongsTo: it runs under the default one, and can begin again.
        FailedPreconditionError: it runs under another one.
    """
    now = _traced_for.get()
    if active_tracer() is None or now is None or now is strategy:
        return
    if has_strategy():
        raise FailedPreconditionError(
            f"{type(strategy).__name__}.run was called in a step of {type(now).__name__}, whose scope is open. Call the step outside of "
            "that scope, or make the model in the scope of the strategy that runs it."
        )
    raise StepBelongsTo(strategy)


@contextmanager
def replica(strategy: Any, parts: BatchRows) -> Iterator[None]:
    """Code inside runs for one replica, which was given parts of batches."""
    with running(strategy), _side(ReplicaContext(strategy, parts), True):
        yield


@contextmanager
def across_replicas() -> Iterator[None]:
    """Code inside runs across the replicas, though a replica called it."""
    with _side(None, False):
        yield


@contextmanager
def of_each_copy(changes_it_alone: bool) -> Iterator[None]:
    """Code inside reads the copy of each replica by itself, though no replica called it.

    Args:
        changes_it_alone: whether what it assigns to an ON_READ variable is of that copy, too.
    """
    tracer = active_tracer()
    assert tracer is not None
    outer, tracer.reads_each_copy = tracer.reads_each_copy, True
    try:
        with _side(None, True) if changes_it_alone else nullcontext():
            yield
    finally:
        tracer.reads_each_copy = outer


@contextmanager
def _side(entry: ReplicaContext | None, in_replica: bool) -> Iterator[None]:
    contexts = _replicas.get()
    tracer = active_tracer()
    outer = tracer is not None and tracer.in_replica
    contexts.append(entry)
    if tracer is not None:
        tracer.in_replica = in_replica
    try:
        yield
    finally:
        if contexts and contexts[-1] is entry:  # as in `simdist.program.scope.running`
            contexts.pop()
        if tracer is not None:
            tracer.in_replica = outer


def has_strategy() -> bool:
    """Whether a strategy was chosen: its scope is open, or code runs inside its `run`.

    Example:
        >>> import simdist as sd
        >>> with sd.MirroredStrategy(2).scope():
        ...     print(sd.has_strategy())
        True
        >>> sd.has_strategy()
        False
    """
    return chosen_scope() is not None


def get_strategy() -> Any:
    """The strategy whose scope is open, or in whose `run` code runs; else the default one: one replica, on this machine.

    Example:
        >>> import simdist as sd
        >>> with sd.MirroredStrategy(2).scope():
        ...     print(sd.get_strategy().num_replicas_in_sync)
        2
        >>> sd.get_strategy().num_replicas_in_sync
        1
    """
    return current_scope()


def get_replica_context() -> ReplicaContext | None:
    """The context of the replica that runs now; None across replicas.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(2)
        >>> strategy.run(lambda: sd.get_replica_context().num_replicas_in_sync)
        2
        >>> with strategy.scope():
        ...     print(sd.get_replica_context())
        None
    """
    contexts = _replicas.get()
    if contexts:
        return contexts[-1]
    return None if has_strategy() or _traced_for.get() is not None else ReplicaContext(get_strategy())


def strategy_of_models() -> Any:
    """The strategy to which a model of Keras belongs that is made now; None: it is an ordinary model.

    A plain function of `schedule` runs under its worker's strategy, but what it makes is its own, unless it opens the scope by itself.
    """
    closure = running_closure.get()
    if closure is not None and closure.is_plain and not (is_opened() or _replicas.get() or active_tracer()):
        return None
    return get_strategy() if has_strategy() else None


def experimental_set_strategy(strategy: Any) -> None:
    """Choose the strategy of all that follows, as if its scope were open from here on; None ends that.

    Raises:
        FailedPreconditionError: called inside a scope.
        TypeError: no strategy.

    Example:
        >>> import simdist as sd
        >>> sd.experimental_set_strategy(sd.MirroredStrategy(2))
        >>> sd.get_strategy().num_replicas_in_sync
        2
        >>> sd.experimental_set_strategy(None)
    """
    if strategy is not None and not callable(getattr(strategy, "scope", None)):
        raise TypeError(f"experimental_set_strategy takes a strategy, such as sd.MirroredStrategy(2), or None; got {shown(strategy)}")
    chosen = _chosen.get()
    if len(open_scopes.get()) > (chosen is not None) or _replicas.get():
        raise FailedPreconditionError(
            "experimental_set_strategy was called inside a strategy's scope. Call it before, or use `with strategy.scope():`."
        )
    if chosen is not None:
        chosen.close()
        _chosen.set(None)
    if strategy is not None:
        scope = ExitStack()
        _chosen.set(scope)
        scope.enter_context(strategy.scope())


def in_cross_replica_context() -> bool:
    """Whether code runs across the replicas of a strategy: in its scope, but not inside `run`.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(2)
        >>> with strategy.scope():
        ...     print(sd.in_cross_replica_context())
        True
        >>> strategy.run(sd.in_cross_replica_context)
        False
    """
    return get_replica_context() is None


def require_cross_replica(what: str) -> None:
    """Raise unless code runs across replicas."""
    contexts = _replicas.get()
    if contexts and contexts[-1] is not None:
        raise FailedPreconditionError(f"{what} was called inside strategy.run; call it outside, across the replicas.")
