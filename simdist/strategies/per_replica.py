"""`PerReplica`: one value for each replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from simdist.errors import InvalidArgumentError

__all__ = ["PerReplica"]


class PerReplica:
    """One value for each replica, in the order of the replicas.

    Arithmetic and conversion to an array are refused: reduce it first, or take ``strategy.local_results(value)``.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise InvalidArgumentError(
            "A PerReplica value was used as an array outside strategy.run. Use strategy.reduce(...) or strategy.local_results(value)."
        )

    def __iter__(self) -> Iterator[Any]:
        raise InvalidArgumentError("A PerReplica value cannot be iterated over. Use strategy.local_results(value).")

    def __repr__(self) -> str:
        return f"PerReplica({', '.join(map(repr, self.values))})"


def _unflatten(_: Any, values: Sequence[Any]) -> PerReplica:
    return PerReplica(tuple(values))


jax.tree_util.register_pytree_node(PerReplica, lambda value: (value.values, None), _unflatten)
