"""`StrategyExtended`: methods of a strategy for authors of libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from simdist.arguments import flag, listed, require_arguments, require_function, shown
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.per_replica import on_each_replica
from simdist.program.tracing import active_tracer
from simdist.strategies import context
from simdist.strategies.absent_names import OF_EXTENDED, WithAbsentNames
from simdist.strategies.communication import CommunicationOptions
from simdist.variables.handles import own_variable, shown_name
from simdist.variables.optimizer import as_variable

__all__ = ["StrategyExtended"]


class StrategyExtended(WithAbsentNames):
    """Made by ``strategy.extended``.

    Args:
        strategy: whose it is.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(devices=2)
        >>> strategy.extended.worker_devices
        ('worker:0/gpu:0', 'worker:0/gpu:1')
    """

    absent_names = OF_EXTENDED

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The devices that compute, in the order of the replicas."""
        return tuple(self.strategy.devices)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The devices that hold variables."""
        return tuple(self.strategy.parameter_devices)

    @property
    def should_checkpoint(self) -> bool:
        """Whether this program is the one that saves: the chief, where there are several workers."""
        return self.strategy.is_chief

    should_save_summary = should_checkpoint

    def variable_created_in_scope(self, variable: Any) -> bool:
        """Whether this strategy created a variable."""
        own = own_variable(variable)
        return own is not None and own.placement.store is self.strategy.store

    @contextmanager
    def colocate_vars_with(self, variable: Any) -> Iterator[None]:
        """Place the variables that are created inside with another one.

        Raises:
            FailedPreconditionError: called outside the strategy's scope.
            InvalidArgumentError: the variable belongs to another strategy, or to none.
        """
        if not context.has_strategy() or context.get_strategy() is not self.strategy:
            raise FailedPreconditionError(
                "colocate_vars_with was called outside the strategy's scope. Write `with strategy.scope():` around it."
            )
        if not self.variable_created_in_scope(variable):
            raise InvalidArgumentError(
                f"{shown_name(variable)!r} was not created by this strategy, so no variable can be colocated with "
                "it here. Create it inside the scope."
            )
        before, self.strategy.colocated_with = self.strategy.colocated_with, as_variable(variable)
        try:
            yield
        finally:
            self.strategy.colocated_with = before

    def update(
        self, var: Any, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None, group: bool = True
    ) -> Any:
        """Call ``fn(variable, *args)`` for each copy of a variable; a `PerReplica` argument is unpacked.

        Of an ON_READ variable the function reads and changes the copy alone. Where that is a SUM, and no argument is a `PerReplica`, it
        reads and assigns the sum.

        Args:
            var: whose copies change.
            fn: what to do with each; may assign to the variable.
            args, kwargs: its arguments.
            group: False returns what it returned for each copy, as `PerReplica`.

        Raises:
            FailedPreconditionError: called inside `run`, other than in a `merge_call`.
            InvalidArgumentError: args is not a list or tuple, or they are nested too deeply.
        """
        require_arguments(args, kwargs, "extended.update")
        require_function(fn, "extended.update")
        group = flag(group, "group")
        context.require_cross_replica("extended.update")
        context.require_stepping(self.strategy)
        return self.strategy.update_copies(as_variable(var), fn, list(args), kwargs or {}, group)

    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any = None) -> Any:
        """The combined value; every device has it.

        Args:
            reduce_op: SUM or MEAN, or its name.
            value: what `run` returned, or a structure of that.
            destinations: where it is wanted: it is everywhere.
            options: `CommunicationOptions` for this call; outside of a step of one program nothing travels.

        Raises:
            InvalidArgumentError: as in `Strategy.reduce`; or other options, or such that concern gradients alone.
            FailedPreconditionError: called inside `run`, other than in a `merge_call`.
        """
        return self.strategy.reduce_with(CommunicationOptions.of_call(options), reduce_op, value, None)

    def batch_reduce_to(self, reduce_op: Any, pairs: Sequence[tuple[Any, Any]], options: Any = None) -> list[Any]:
        """`reduce_to` for several (value, destinations).

        Raises:
            TypeError: no list of pairs.
            InvalidArgumentError: as `reduce_to`.
        """
        given = listed(pairs, "value_destination_pairs", "pairs (value, destinations)")
        wrong = [pair for pair in given if not isinstance(pair, (tuple, list)) or len(cast("Sequence[Any]", pair)) != 2]
        if wrong:
            raise TypeError(f"value_destination_pairs has {shown(wrong[0])}; expected pairs (value, destinations)")
        return [self.reduce_to(reduce_op, value, destinations, options) for value, destinations in given]

    def value_container(self, value: Any) -> Any:
        """The distributed value that a component belongs to; here they are one."""
        return value

    def broadcast_to(self, value: Any, destinations: Any) -> Any:
        """The same value for every replica.

        Raises:
            InvalidArgumentError: the value is a `PerReplica`.
        """
        tracer = active_tracer()
        return on_each_replica(value, len(self.strategy.ranks) if tracer is None else tracer.num_replicas)
