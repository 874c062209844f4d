"""Which strategy is in scope, and whether code runs for one replica or across them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from simdist.errors import FailedPreconditionError
from simdist.program.tracing import active_tracer
from simdist.simulation.task_context import active_context

__all__ = ["ReplicaContext", "get_replica_context", "get_strategy", "has_strategy", "scope_hooks"]

# What else must happen while a scope is open; Keras' adoption of variables registers itself here.
scope_hooks: list[Callable[[Any], AbstractContextManager[Any]]] = []
_default: list[Any] = []
_make_default: list[Callable[[], Any]] = []


class ReplicaContext:
    """What code knows that runs for one replica.

    Attributes:
        replica_id_in_sync_group: 0 to n-1.
        num_replicas_in_sync: n.
    """

    def __init__(self, strategy: Any, replica_id: Any = 0) -> None:
        self.strategy = strategy
        self.replica_id_in_sync_group = replica_id

    @property
    def num_replicas_in_sync(self) -> int:
        return self.strategy.num_replicas_in_sync

    def all_reduce(self, op: Any, value: Any) -> Any:
        """Combine the values of all replicas."""
        return self.strategy.all_reduce_in_replica(op, value)


def has_strategy() -> bool:
    """Whether a strategy's scope is open."""
    return bool(active_context().strategies)


def get_strategy() -> Any:
    """The strategy whose scope is open, or the default one: one replica, on this machine."""
    stack = active_context().strategies
    if stack:
        return stack[-1]
    if not _default:
        _default.append(_make_default[0]())
    return _default[0]


def register_default(make: Callable[[], Any]) -> None:
    """Say what the default strategy is."""
    _make_default.append(make)


def get_replica_context() -> ReplicaContext | None:
    """The context of the replica that runs now; None across replicas."""
    contexts = active_context().locals.get("replica_contexts")
    if contexts:
        return contexts[-1]
    if has_strategy() and active_tracer() is None:
        return None
    return None if has_strategy() else ReplicaContext(get_strategy())


def require_cross_replica(what: str) -> None:
    """Raise unless code runs across replicas."""
    if active_context().locals.get("replica_contexts"):
        raise FailedPreconditionError(f"{what} was called inside strategy.run; call it outside, across the replicas.")
