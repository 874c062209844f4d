"""Values that are computed late: bundles of arrays, some of which do not exist yet.

A *bundle* is a fixed tuple of arrays that come into being together: the variables that one update changes on one
server, the gradients that one step sends to one server, the values that one step returns. The schedule passes bundles
around long before their numbers are known; arrays are immutable, so a snapshot is a reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Aval", "Bundle", "aval_of", "num_bytes"]


@dataclass(frozen=True)
class Aval:
    """Shape and dtype of an array that need not exist."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * itemsize(self.dtype)


def itemsize(dtype: str) -> int:
    """Bytes of one element; also for the dtypes that only JAX knows (bfloat16, float8)."""
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        import jax.numpy as jnp

        return jnp.dtype(dtype).itemsize


def aval_of(array: Any) -> Aval:
    """The shape and dtype of anything array-like."""
    if not hasattr(array, "dtype"):
        array = np.asarray(array)
    return Aval(tuple(array.shape), str(array.dtype))


def num_bytes(avals: Sequence[Aval]) -> int:
    """Bytes of all the arrays together."""
    return sum(aval.size_bytes for aval in avals)


class Bundle:
    """Arrays that come into being together; `arrays` is None until somebody needed them, and `entry` says how to make them."""

    __slots__ = ("__weakref__", "arrays", "avals", "entry")

    def __init__(self, avals: tuple[Aval, ...], arrays: tuple[Any, ...] | None = None, entry: Any = None) -> None:
        self.avals = avals
        self.arrays = arrays
        self.entry = entry

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> Bundle:
        """A bundle of arrays that exist."""
        return cls(tuple(aval_of(array) for array in arrays), tuple(arrays))

    def __repr__(self) -> str:
        state = "computed" if self.arrays is not None else "pending"
        return f"Bundle({len(self.avals)} arrays, {num_bytes(self.avals)} bytes, {state})"
