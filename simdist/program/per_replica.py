"""`PerReplica`: one value for each replica.

Outside of a step all values are known. A step is traced for one replica, which knows only its replica-local
value; code that asks there for the values of all adds an all-gather to the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Never

import jax
import jax._src.core as jax_core
import jax._src.dtypes as jax_dtypes
import jax.numpy as jnp

from simdist.arguments import listed
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import DTypeLike, HostArray, Tree, has_dtype
from simdist.program.batch_rows import BatchRows
from simdist.program.tracing import Tracer, active_tracer

__all__ = [
    "PerReplica",
    "ReplicaArgument",
    "ReplicaLocal",
    "ReplicaLocalResult",
    "has_values_of_replicas",
    "of_replica",
    "on_each_replica",
    "per_replica",
    "rows_of",
    "spread",
]


class ReplicaArgument:
    """What each replica of a step has for itself, where it is an argument: a value of each, or a distributed iterator.

    Attributes:
        global_rows: rows of the batch of which these are parts; None where they are something else.
        is_uneven: whether its values have different shapes; False where they come only later.
    """

    global_rows: int | None = None

    @property
    def is_uneven(self) -> bool:
        """Whether its values have different shapes; False where they come only later."""
        return False


class PerReplica(ReplicaArgument):
    """One value for each replica, in the order of the replicas.

    Args:
        values: r trees of arrays, one for each of the replicas of this machine.
        global_rows: rows of the batch of which these are parts; None where they are something else.

    Attributes:
        values: as a tuple.

    Arithmetic, conditions and conversion to a number or an array are refused: reduce it first, or take ``strategy.local_results(value)``.
    So are ``==`` and ``!=`` with anything but a `PerReplica`, of which each equals itself alone.

    Example:
        >>> PerReplica([1, 2])
        PerReplica(1, 2)
    """

    def __init__(self, values: Sequence[Tree], global_rows: int | None = None) -> None:
        self._values = tuple(listed(values, "values", "the value of each replica"))
        self.global_rows = global_rows

    @property
    def values(self) -> tuple[Tree, ...]:
        """The values of all replicas, in their order."""
        return self._values

    @property
    def num_replicas(self) -> int:
        """The number of the values."""
        return len(self._values)

    @property
    def is_uneven(self) -> bool:
        """Whether the values have different shapes, as those of a last batch that does not divide evenly."""
        return len({value.shape if has_dtype(value) else None for value in self.values}) > 1

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        raise self._refusal("used as an array")

    def __jax_array__(self) -> jax.Array:
        raise self._refusal("used as an array")

    def __iter__(self) -> Iterator[Never]:
        raise self._refusal("iterated over")

    def __bool__(self) -> bool:
        raise TypeError(str(self._refusal("used as a condition")))

    def __float__(self) -> float:
        raise TypeError(str(self._refusal("converted to a number")))

    def __int__(self) -> int:
        raise TypeError(str(self._refusal("converted to a number")))

    def __len__(self) -> int:
        raise TypeError(str(self._refusal("asked for its length")))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PerReplica):  # "not equal" would be taken for an answer about the values
            raise self._refusal("compared")
        return self is other

    __hash__ = ReplicaArgument.__hash__

    def _refusal(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"A PerReplica value was {what} outside strategy.run. Use strategy.reduce(...) to combine the replicas' values, or "
            "strategy.local_results(value) to see each."
        )

    def __repr__(self) -> str:
        return f"PerReplica({', '.join(map(repr, self.values))})"


def _no_aval(value: PerReplica) -> Never:
    raise value._refusal("given to a function of JAX")


# JAX asks what a compiled function is given for its type; its own message would not know what a value of several replicas is.
for table in (jax_core.pytype_aval_mappings, jax_dtypes.canonicalize_value_handlers):
    table[PerReplica] = _no_aval


class ReplicaLocal(PerReplica):
    """A replica-local value while a step is traced: only that of the traced replica is known."""

    def __init__(self, tracer: Tracer, local_value: Tree, global_rows: int | None = None) -> None:
        self.tracer = tracer
        self.local_value = local_value
        self.global_rows = global_rows

    @property
    def values(self) -> tuple[Tree, ...]:
        """The values of all replicas: a collective, in which each sends its own to all others."""
        leaves, structure = jax.tree_util.tree_flatten(self.local_value)
        parts = self.tracer.collective("all_gather", leaves)
        return tuple(jax.tree_util.tree_unflatten(structure, part) for part in parts)

    @property
    def num_replicas(self) -> int:
        """The number of the values, which need not travel for that."""
        return self.tracer.num_replicas

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplicaLocal):  # it may hold a constant, and "not equal" would be taken for an answer
            raise self._refusal("compared")
        return self is other

    __hash__ = PerReplica.__hash__

    def __repr__(self) -> str:
        return f"PerReplica(replica {self.tracer.rank} of {self.tracer.num_replicas}: {self.local_value!r})"


class ReplicaLocalResult:
    """The result of one replica, where the results of the others may differ."""

    def __init__(self, value: Tree) -> None:
        self.value = value


def per_replica(values: Sequence[Tree]) -> Tree:
    """The result of a step, from the results of its replicas.

    What the step returned across the replicas is the same everywhere, and that of the first is taken. What `run` returned is a
    `PerReplica`; where all replicas returned one and the same object that is no array, it is that object.

    Raises:
        InvalidArgumentError: the replicas returned different structures.
    """
    flat = [jax.tree_util.tree_flatten(value, is_leaf=lambda x: x is None) for value in values]
    if any(structure != flat[0][1] for _, structure in flat):
        raise InvalidArgumentError("The replicas returned different structures; return the same one from each.")
    leaves = [_one_or_each(parts) for parts in zip(*(leaves for leaves, _ in flat), strict=True)]
    return jax.tree_util.tree_unflatten(flat[0][1], leaves)


def _one_or_each(parts: Sequence[Tree]) -> Tree:
    if not any(isinstance(part, ReplicaLocalResult) for part in parts):
        return parts[0]
    # An array at one replica may be None at another, which is not spread.
    values = [part.value if isinstance(part, ReplicaLocalResult) else part for part in parts]
    if put_together := [value for value in values if isinstance(value, PerReplica)]:
        return _put_together(put_together)
    same = not has_dtype(values[0]) and all(value is values[0] or value == values[0] for value in values)
    return values[0] if same else PerReplica(values)


def _put_together(values: Sequence[PerReplica]) -> PerReplica:
    """The result where each replica returned a `PerReplica` that the step has put together itself: of each replica its own value.

    One of another number of values (for each device of a list, say) is the same at all replicas.
    """
    if values[0].num_replicas != len(values) or all(value is values[0] for value in values):
        return values[0]
    return PerReplica([value.values[position] for position, value in enumerate(values)], values[0].global_rows)


def on_each_replica(value: Tree, count: int) -> Tree:
    """The same value for each of several replicas; in a step of as many it is replica-local, as a result of `run` is.

    Raises:
        InvalidArgumentError: the value is a `PerReplica`.
    """
    if has_values_of_replicas(value):
        raise InvalidArgumentError("A PerReplica was given to a broadcast, which gives one value to all replicas. Reduce it first.")
    tracer = active_tracer()
    if tracer is None or tracer.num_replicas != count:
        return value if count == 1 else PerReplica([value] * count)
    return value if count == 1 else ReplicaLocal(tracer, jax.tree_util.tree_map(_as_array, value))


def _as_array(leaf: Tree) -> Tree:
    return jnp.asarray(leaf) if isinstance(leaf, (bool, int, float, complex)) else leaf


def of_replica(structure: Tree, position: int) -> Tree:
    """A structure with the value of one replica in place of each `PerReplica`; the present one's while a step is traced."""

    def value_of(leaf: Tree) -> Tree:
        if isinstance(leaf, ReplicaLocal):
            return leaf.local_value
        return leaf.values[position] if isinstance(leaf, PerReplica) else leaf

    return jax.tree_util.tree_map(value_of, structure, is_leaf=_is_per_replica)


def spread(structure: Tree, rows: BatchRows | None = None) -> Tree:
    """The result of `run` while a step is traced: arrays are replica-local; other values are the same for all.

    Args:
        rows: of the batches that arrays of this structure may be parts of.
    """
    tracer = active_tracer()
    assert tracer is not None
    if tracer.num_replicas == 1:
        return structure

    def local(leaf: Tree) -> Tree:
        if not has_dtype(leaf):
            return ReplicaLocal(tracer, leaf) if tracer.differs(leaf) else leaf
        return ReplicaLocal(tracer, leaf, rows.size_of(leaf.shape[0]) if rows is not None and leaf.shape else None)

    return jax.tree_util.tree_map(local, structure)


def rows_of(arguments: Tree, of_one: Tree) -> BatchRows:
    """The rows of the batches that the arguments of one replica are parts of.

    Args:
        arguments: a structure with a `PerReplica` for what each replica has for itself.
        of_one: the same with the values of one replica.
    """
    found = BatchRows()
    leaves, structure = jax.tree_util.tree_flatten(arguments, is_leaf=_is_per_replica)
    for leaf, value in zip(leaves, structure.flatten_up_to(of_one), strict=True):
        for part in jax.tree_util.tree_leaves(value) if isinstance(leaf, PerReplica) else ():
            if has_dtype(part) and part.shape:
                found.note(part.shape[0], leaf.global_rows)
    return found


def has_values_of_replicas(structure: Tree) -> bool:
    """Whether there is a `PerReplica` in a structure."""
    return any(map(_is_per_replica, jax.tree_util.tree_leaves(structure, is_leaf=_is_per_replica)))


def _is_per_replica(leaf: Tree) -> bool:
    return isinstance(leaf, PerReplica)
