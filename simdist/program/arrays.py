"""The words for numbers in annotations: arrays, what can be made one, and trees of them.

An annotation says what something is; its docstring says its axes, in letters: r replicas, w workers, b rows of a batch, p parameters,
s shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import jax
import jax.core
import jax.typing
import numpy as np

__all__ = [
    "Array",
    "ArrayLike",
    "Arrays",
    "DType",
    "DTypeLike",
    "HostArray",
    "SupportsJaxArray",
    "Tree",
    "TreeStructure",
    "has_dtype",
    "bytes_of_arrays",
    "is_array",
    "is_variable",
    "jax_array",
    "jax_arrays",
    "native",
    "present_value",
    "supports_jax_array",
]

DType: TypeAlias = np.dtype[Any]
"""A dtype of numpy."""

HostArray: TypeAlias = np.ndarray[Any, DType]
"""An array of numpy."""

Array: TypeAlias = jax.Array | HostArray
"""An array of any shape, of JAX or of numpy."""


Arrays: TypeAlias = tuple[Array, ...]
"""Several arrays in a fixed order: the leaves of a batch, the inputs or the results of a kernel."""


class SupportsJaxArray(Protocol):
    """What JAX takes for an array: variables, ours and those of Keras."""

    def __jax_array__(self) -> jax.Array: ...


ArrayLike: TypeAlias = "jax.typing.ArrayLike | SupportsJaxArray | Sequence[ArrayLike]"
"""What an array can be made of: an array, a number, a variable, or lists of these."""

DTypeLike: TypeAlias = jax.typing.DTypeLike
"""What names a dtype."""

Tree: TypeAlias = Any
"""A tree of JAX: arrays, numbers and other leaves, in tuples, lists, dicts and what else is registered, as deep as one likes."""


class TreeStructure(Protocol):
    """How the leaves of a tree are nested, as JAX says it."""

    num_leaves: int

    def unflatten(self, leaves: Iterable[Tree], /) -> Tree:
        """The tree with these leaves."""
        ...

    def __hash__(self) -> int: ...


class HasDtype(Protocol):
    """An array, of whatever library."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...


def is_array(leaf: object) -> TypeGuard[Array]:
    """Whether a leaf of a tree is an array of JAX or of numpy, or a placeholder of one."""
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, jax.core.Tracer))


def bytes_of_arrays(value: object) -> int:
    """The bytes of the arrays in tuples, lists and dicts, whatever else is there; an array that is there twice counts once.

    Example:
        >>> bytes_of_arrays({"losses": [np.zeros(3, np.float32)], 7: ("text", np.float64(1.0))})
        20
    """
    total, left, seen = 0, [value], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if is_array(one):
            total += one.nbytes
        elif isinstance(one, dict):
            left += cast("dict[object, object]", one).values()
        elif isinstance(one, (tuple, list)):
            left += cast("Sequence[object]", one)
    return total


def has_dtype(leaf: object) -> TypeGuard[HasDtype]:
    """Whether a leaf of a tree is an array, of whatever library.

    Example:
        >>> has_dtype(np.float32(1)), has_dtype(1.0), has_dtype("float32")
        (True, False, False)
    """
    return hasattr(leaf, "dtype")


def supports_jax_array(leaf: object) -> TypeGuard[SupportsJaxArray]:
    """Whether something says of itself how JAX makes an array of it."""
    return hasattr(leaf, "__jax_array__")


def is_variable(leaf: object) -> bool:
    """Whether something is a variable, ours or one of Keras: it can be assigned to, and JAX takes it for an array."""
    return supports_jax_array(leaf) and hasattr(leaf, "assign")


def native(value: Any) -> Any:
    """An array of numpy in the byte order of this machine, the only one that JAX takes, as files have it otherwise; all else as it is.

    Example:
        >>> native(np.zeros(2, ">f4")).dtype.isnative, native(1.0)
        (True, 1.0)
    """
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))
    return value


def jax_array(numbers: HostArray) -> jax.Array:
    """An array of JAX of the numbers of a NumPy array that nobody changes any more.

    ``jnp.asarray`` compiles a program for each new shape, which takes about 10 ms; this compiles nothing. But the array may
    share its memory with the one that it is made of.

    Example:
        >>> jax_array(np.zeros(2, np.float32))
        Array([0., 0.], dtype=float32)
    """
    return jax.device_put(numbers)


def jax_arrays(arrays: Iterable[Array]) -> Arrays:
    """Arrays as those of JAX, which nobody can write to; also while a step is traced. Those of 64 bits keep them."""
    return tuple([array if isinstance(array, jax.Array) else _jax_array_of_all_bits(array) for array in arrays])


def _jax_array_of_all_bits(array: HostArray) -> jax.Array:
    with jax.core.eval_context():
        if jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype:
            return jax_array(array)
        with jax.enable_x64(True):
            return jax_array(array)


def present_value(operand: ArrayLike) -> ArrayLike:
    """Of a variable, ours or one of Keras, the value that it has now; anything else as it is."""
    return getattr(operand, "value", operand)
