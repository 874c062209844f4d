"""`PerReplica`: one value for each replica.

Outside of a step all values are there. While a step is traced, it is traced from the place of one replica, which knows its
own value; whoever asks there for the values of all makes the replicas exchange them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from simdist.errors import InvalidArgumentError
from simdist.program.tracing import Tracer, active_tracer

__all__ = ["ReplicaLocalResult", "ReplicaLocal", "PerReplica", "of_replica", "per_replica", "spread"]


class PerReplica:
    """One value for each replica, in the order of the replicas.

    Args:
        values: nested structures of arrays; those of this machine's replicas.
        global_rows: rows of the batch of which these are parts; None where they are something else.

    Attributes:
        values: as a tuple.

    Arithmetic and conversion to an array are refused: reduce it first, or take ``strategy.local_results(value)``.

    Example:
        >>> PerReplica([1, 2])
        PerReplica(1, 2)
    """

    is_per_replica = True

    def __init__(self, values: Sequence[Any], global_rows: int | None = None) -> None:
        self._values = tuple(values)
        self.global_rows = global_rows

    @property
    def values(self) -> tuple[Any, ...]:
        return self._values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self._refusal("used as an array")

    def __jax_array__(self) -> Any:
        raise self._refusal("used as an array")

    def __iter__(self) -> Iterator[Any]:
        raise self._refusal("iterated over")

    def _refusal(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"A PerReplica value was {what} outside strategy.run. Use strategy.reduce(...) to combine the replicas' values, or "
            "strategy.local_results(value) to see each."
        )

    def __repr__(self) -> str:
        return f"PerReplica({', '.join(map(repr, self.values))})"


class ReplicaLocal(PerReplica):
    """A value of each replica while a step is traced: only that of the replica whose place is traced is known."""

    def __init__(self, tracer: Tracer, own: Any) -> None:
        self.tracer = tracer
        self.own = own
        self.global_rows = None

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of all replicas: a collective, in which each sends its own to all others."""
        leaves, structure = jax.tree_util.tree_flatten(self.own)
        parts = self.tracer.collective("all_gather", leaves)
        return tuple(jax.tree_util.tree_unflatten(structure, part) for part in parts)

    def __repr__(self) -> str:
        return f"PerReplica(replica {self.tracer.rank} of {self.tracer.num_replicas}: {self.own!r})"


class ReplicaLocalResult:
    """What one replica returned from a step, where the others returned theirs."""

    def __init__(self, value: Any) -> None:
        self.value = value


def per_replica(values: Sequence[Any]) -> Any:
    """What a step returns, from what it returned at each replica.

    What the step returned across the replicas is the same everywhere, and that of the first is taken. What `run` returned is a
    `PerReplica`; where all replicas returned one and the same object that is no array, it is that object.

    Raises:
        InvalidArgumentError: the replicas returned different structures.
    """
    is_leaf = lambda x: x is None  # noqa: E731
    flat = [jax.tree_util.tree_flatten(value, is_leaf=is_leaf) for value in values]
    if any(structure != flat[0][1] for _, structure in flat):
        raise InvalidArgumentError("The replicas returned different structures; return the same one from each.")
    leaves = [_one_or_each(parts) for parts in zip(*(leaves for leaves, _ in flat), strict=True)]
    return jax.tree_util.tree_unflatten(flat[0][1], leaves)


def _one_or_each(parts: Sequence[Any]) -> Any:
    if not any(isinstance(part, ReplicaLocalResult) for part in parts):
        return parts[0]
    # An array at one replica may be None at another, which is not spread.
    values = [part.value if isinstance(part, ReplicaLocalResult) else part for part in parts]
    same = not hasattr(values[0], "dtype") and all(value is values[0] or value == values[0] for value in values)
    return values[0] if same else PerReplica(values)


def of_replica(structure: Any, position: int) -> Any:
    """A structure with the value of one replica in place of each `PerReplica`; the present one's while a step is traced."""

    def own(leaf: Any) -> Any:
        if isinstance(leaf, ReplicaLocal):
            return leaf.own
        return leaf.values[position] if isinstance(leaf, PerReplica) else leaf

    return jax.tree_util.tree_map(own, structure, is_leaf=lambda x: isinstance(x, PerReplica))


def spread(structure: Any) -> Any:
    """What `run` returns while a step is traced: arrays are this replica's own; what is no array is the same for all."""
    tracer = active_tracer()
    assert tracer is not None
    if tracer.num_replicas == 1:
        return structure
    # Where the step asked which replica it is, anything may differ among them.
    return jax.tree_util.tree_map(
        lambda leaf: ReplicaLocal(tracer, leaf) if hasattr(leaf, "dtype") or tracer.differs(leaf) else leaf, structure
    )
