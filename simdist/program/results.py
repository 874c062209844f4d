"""What a step returned, leaf by leaf: arrays come from the program, everything else is as it was at tracing.

Of a variable comes the value that it has at the end of the step, as in TensorFlow: the variable itself will have others later.
A `PerReplica` that the step has put together itself has the values of all replicas; each replica gives all of them, and its own is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax

from simdist.program.arrays import Array, Tree, TreeStructure, is_array, is_variable, present_value
from simdist.program.per_replica import PerReplica, ReplicaLocal, ReplicaLocalResult

__all__ = ["Results"]

# What makes the leaf of its value, the value's structure, and for each part what stands there; None for an array.
ResultLeaf = tuple[Callable[[Tree], Tree], TreeStructure, list[tuple[Tree] | None]]


class Results:
    """The results of a step, leaf by leaf: arrays come from the program, all else is as it was at tracing."""

    def __init__(self) -> None:
        self.leaves: list[ResultLeaf] = []

    def sort(self, results: Sequence[Tree]) -> list[Array]:
        """Keep what is no array; give the arrays."""
        arrays: list[Array] = []
        for result in results:
            finish, value = _taken_apart(result)
            parts, structure = jax.tree_util.tree_flatten(value, is_leaf=lambda x: x is None)
            parts = [present_value(part) if is_variable(part) else part for part in parts]
            self.leaves.append((finish, structure, [None if is_array(part) else (part,) for part in parts]))
            arrays += [part for part in parts if is_array(part)]
        return arrays

    def put_back(self, arrays: list[Array]) -> list[Tree]:
        """The leaves, with these arrays; a replica-local leaf is a `ReplicaLocalResult`."""
        remaining = iter(arrays)
        leaves: list[Tree] = []
        for finish, structure, parts in self.leaves:
            values = [next(remaining) if part is None else part[0] for part in parts]
            leaves.append(finish(jax.tree_util.tree_unflatten(structure, values)))
        return leaves


def _taken_apart(result: Tree) -> tuple[Callable[[Tree], Tree], Tree]:
    """What makes the leaf of the value, and the value."""
    if isinstance(result, ReplicaLocal):
        return ReplicaLocalResult, result.local_value
    if isinstance(result, PerReplica) and any(map(is_array, jax.tree_util.tree_leaves(result.values))):
        return lambda values: ReplicaLocalResult(PerReplica(values, result.global_rows)), result.values
    return (ReplicaLocalResult if isinstance(result, PerReplica) else _as_it_is), result


def _as_it_is(value: Tree) -> Tree:
    return value
