"""What a step returned, leaf by leaf: arrays come from the program, everything else is as it was at tracing.

Of a variable comes the value that it has at the end of the step, as in TensorFlow: the variable itself will have others later.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax

from simdist.program.arrays import Array, Tree, TreeStructure, is_array, is_variable, present_value
from simdist.program.per_replica import PerReplica, ReplicaLocal, ReplicaLocalResult

__all__ = ["Results"]

# Whether it is of one replica, its structure where it has one of its own, and for each part what stands there; None for an array.
ResultLeaf = tuple[bool, TreeStructure | None, list[tuple[Tree] | None]]


class Results:
    """The results of a step, leaf by leaf: arrays come from the program, all else is as it was at tracing."""

    def __init__(self) -> None:
        self.leaves: list[ResultLeaf] = []

    def sort(self, results: Sequence[Tree]) -> list[Array]:
        """Keep what is no array; give the arrays."""
        arrays: list[Array] = []
        for result in results:
            own = isinstance(result, PerReplica)
            parts, structure = jax.tree_util.tree_flatten(result.local_value) if isinstance(result, ReplicaLocal) else ([result], None)
            parts = [present_value(part) if is_variable(part) else part for part in parts]
            self.leaves.append((own, structure, [None if is_array(part) else (part,) for part in parts]))
            arrays += [part for part in parts if is_array(part)]
        return arrays

    def put_back(self, arrays: list[Array]) -> list[Tree]:
        """The leaves, with these arrays; a replica-local leaf is a `ReplicaLocalResult`."""
        remaining = iter(arrays)
        leaves: list[Tree] = []
        for own, structure, parts in self.leaves:
            values = [next(remaining) if part is None else part[0] for part in parts]
            value = values[0] if structure is None else jax.tree_util.tree_unflatten(structure, values)
            leaves.append(ReplicaLocalResult(value) if own else value)
        return leaves
