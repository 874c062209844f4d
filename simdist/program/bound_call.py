"""The arguments of a call of a step, sorted: iterators, arrays, and all that is fixed into the program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

import jax
import numpy as np

from simdist.arguments import require_shallow
from simdist.errors import InvalidArgumentError
from simdist.jax_settings import trace_settings
from simdist.program.arrays import Array, DType, Tree, TreeStructure, is_array
from simdist.program.narrowing import kept_dtype, narrowed, require_numbers, require_unmasked
from simdist.program.operations import VariableHandle
from simdist.program.per_replica import ReplicaArgument
from simdist.program.step_iterator import StepIterator
from simdist.program.values import Aval, aval_of, snapshot

__all__ = ["BoundCall", "CallKey", "ReplicaLocalSpec", "bound", "bound_for_each", "is_iterator"]

CallKey = tuple[Hashable, ...]
"""What must be equal for two calls to be able to share a program, batches apart."""
# A number of so many bytes may be wider than JAX keeps.
WIDE_BYTES = 8
_UNKNOWN = object()
ITERATOR = ("iterator",)
"""What is fixed of an iterator: that it is one."""


@dataclass(frozen=True)
class ReplicaLocalSpec:
    """The mark of a replica-local argument.

    Attributes:
        global_rows: rows of all replicas together; None where they are something else, or not known.
        is_uneven: whether the replicas that are driven here have values of different shapes.
    """

    global_rows: int | None = None
    is_uneven: bool = False


@dataclass(frozen=True)
class BoundCall:
    """The arguments of one call, sorted: iterators, arrays, and all that is fixed. Made by `bound`.

    Attributes:
        local_specs: for each leaf, None, or a `ReplicaLocalSpec` where it is the value of one replica and others have others.
        key: what must be equal for two calls to be able to share a program, batches apart.
    """

    structure: TreeStructure
    leaves: tuple[Tree, ...]
    local_specs: tuple[ReplicaLocalSpec | None, ...]
    iterators: tuple[StepIterator, ...]
    arrays: tuple[Array, ...]
    key: CallKey


def bound(name: str, args: Sequence[Tree], kwargs: dict[str, Tree], resolve: Callable[[Tree], Tree] = lambda leaf: leaf) -> BoundCall:
    """Sort the arguments of a call; `resolve` replaces per-worker arguments by those of the worker."""
    return bound_for_each(name, args, kwargs, [resolve])[0]


def bound_for_each(name: str, args: Sequence[Tree], kwargs: dict[str, Tree], resolves: Sequence[Callable[[Tree], Tree]]) -> list[BoundCall]:
    """The same for several, each of which has a `resolve` of its own; those whose keys are equal have one key."""
    require_shallow((tuple(args), dict(kwargs)), f"the arguments of {name}")
    given, structure = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
    local_specs = tuple([_local_spec(leaf) for leaf in given])
    calls: list[BoundCall] = []
    before: tuple[Hashable, ...] | None = None
    same: list[Tree] = [_UNKNOWN] * len(given)  # what is kept of the arguments that are the same for all
    for resolve in resolves:
        kept: list[Tree] = []
        for number, leaf in enumerate(given):
            resolved = resolve(leaf)
            if resolved is not leaf:
                kept.append(_kept(name, resolved))
                continue
            if same[number] is _UNKNOWN:
                same[number] = _kept(name, leaf)
            kept.append(same[number])
        leaves = tuple(kept)
        if calls and all(map(_are_equal_arrays, leaves, calls[-1].leaves)):
            calls.append(BoundCall(structure, leaves, local_specs, (), leaves, calls[-1].key))
            continue
        fixed = tuple([_fixed(name, leaf) for leaf in leaves])
        if before is not None and all(map(_is_same, fixed, before)):
            key = calls[-1].key
        else:
            before, key = fixed, _key(name, structure, local_specs, fixed)
        iterators, arrays = [leaf for leaf in leaves if is_iterator(leaf)], [leaf for leaf in leaves if is_array(leaf)]
        calls.append(BoundCall(structure, leaves, local_specs, tuple(iterators), tuple(arrays), key))
    return calls


def _are_equal_arrays(one: Tree, other: Tree) -> bool:
    """Whether the same is fixed of two arguments, as each is an array of numpy with the same type; False where it takes longer to know."""
    return type(one) is np.ndarray is type(other) and one.dtype is other.dtype and one.shape == other.shape


def _kept(name: str, leaf: Tree) -> Tree:
    """An argument as it is now; an array of NumPy with a dtype that JAX keeps."""
    leaf = snapshot(leaf)
    require_unmasked(leaf, f"an argument of {name}")
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind not in "iufc":
        return leaf
    if leaf.dtype.itemsize >= WIDE_BYTES or not leaf.dtype.isnative:
        wanted = kept_dtype(leaf.dtype)
        return leaf if wanted == leaf.dtype else narrowed(np.asarray(leaf), wanted, f"an argument of {name}")
    return leaf


def _fixed(name: str, leaf: Tree) -> Hashable:
    """What is fixed of an argument while a program can be used for it."""
    if is_iterator(leaf):
        return ITERATOR
    if is_array(leaf):
        require_numbers(_name_of(leaf.dtype), f"an argument of {name}")
        return aval_of(leaf)
    # Python takes 1, 1.0 and True for equal, and 0.0 and -0.0; a NaN is not even equal to itself.
    if isinstance(leaf, int):
        return type(leaf), leaf
    if isinstance(leaf, (float, complex)):
        return type(leaf), repr(leaf)
    fixed: Hashable = leaf.ref() if isinstance(leaf, VariableHandle) else leaf
    return fixed


@lru_cache(maxsize=64)
def _name_of(dtype: DType) -> str:
    return dtype.name  # numpy puts it together anew each time


def _is_same(one: Hashable, other: Hashable) -> bool:
    return one is other or (type(one) in (Aval, tuple) and one == other)


def _key(name: str, structure: TreeStructure, local_specs: tuple[ReplicaLocalSpec | None, ...], fixed: tuple[Hashable, ...]) -> CallKey:
    try:
        hash(fixed)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{name} was given an argument that is neither an array, an iterator nor a hashable value: {error}. Pass arrays, "
            "numbers or text, or close over the object."
        ) from None
    return structure, local_specs, fixed, trace_settings()


def is_iterator(leaf: object) -> TypeGuard[StepIterator]:
    """Whether an argument gives batches: by its method, since iterators of users' own are welcome."""
    return hasattr(leaf, "next_batch")


def _local_spec(leaf: object) -> ReplicaLocalSpec | None:
    """Of an argument that each replica has for itself, what its values are together; None of any other."""
    return ReplicaLocalSpec(leaf.global_rows, leaf.is_uneven) if isinstance(leaf, ReplicaArgument) else None
