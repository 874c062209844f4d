"""Late values: bundles of arrays, of which some are not computed yet.

A *bundle* is a fixed tuple of arrays that come into being together: the variables that one update changes on one
server, the gradients that one step sends to one server, the values that one step returns. The schedule passes bundles
around long before their numbers are known; arrays are immutable, so a snapshot is a reference.

A bundle that the ledger has taken up has a *register*, which it keeps as long as there is a reference to the bundle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Protocol, TypeVar

import jax.numpy as jnp
import numpy as np

from simdist.program.arrays import Array, ArrayLike, DType, has_dtype

__all__ = ["Aval", "Bundle", "BundleType", "Registers", "aval_of", "num_bytes", "snapshot", "stacked_type"]


class Aval:
    """Shape and dtype of an array that need not exist.

    Args:
        shape: length of each axis.
        dtype: its name, such as "float32".
    """

    __slots__ = ("__dict__", "_hash", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape = shape
        self.dtype = dtype
        self._hash = hash((shape, dtype))

    @cached_property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * itemsize(self.dtype)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Aval) and self.shape == other.shape and self.dtype == other.dtype)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


BundleType = tuple[Aval, ...]
Leaf = TypeVar("Leaf")


def itemsize(dtype: str) -> int:
    """Bytes of one element; also for the dtypes that only JAX knows (bfloat16, float8)."""
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return jnp.dtype(dtype).itemsize


def aval_of(array: ArrayLike) -> Aval:
    """The shape and dtype of anything array-like."""
    known = array if has_dtype(array) else np.asarray(array)
    return Aval(tuple(known.shape), _text_of(known.dtype))


@lru_cache(maxsize=64)
def _text_of(dtype: DType) -> str:
    return str(dtype)  # numpy puts it together anew each time, which takes longer than all else here


def snapshot(value: Leaf) -> Leaf:
    """A value that its owner cannot change any more: numbers are computed late, and must be those of now.

    To be called before an array becomes one of JAX: on a CPU that may be the same memory.
    """
    return value.copy() if isinstance(value, np.ndarray) and may_change(value) else value


def may_change(array: np.ndarray) -> bool:
    """Whether the memory of an array can be changed through some array, or is not numpy's own, so that nothing is known of it.

    Its owner can make an array writeable again, and then changes it for all: that is not foreseen.

    Example:
        >>> array = np.zeros(2)
        >>> view = array[:1]
        >>> view.flags.writeable = False
        >>> may_change(view)
        True
        >>> array.flags.writeable = False
        >>> may_change(view)
        False
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    return owner is not None


def num_bytes(avals: Sequence[Aval]) -> int:
    """Bytes of all the arrays together."""
    return sum([aval.size_bytes for aval in avals])


def blanks(avals: Sequence[Aval]) -> tuple[np.ndarray, ...]:
    """What stands for arrays that nothing uses any more: NaN where there is one, which would be seen, and no memory."""
    dtypes = [jnp.dtype(aval.dtype) for aval in avals]
    numbers = [np.array(np.nan if jnp.issubdtype(dtype, np.inexact) else 0, dtype) for dtype in dtypes]
    return tuple([np.broadcast_to(number, aval.shape) for number, aval in zip(numbers, avals, strict=True)])


def stacked_type(avals: Sequence[Aval], count: int) -> BundleType:
    """The type of so many bundles of a type, stacked: each array [count, ...]."""
    return tuple([Aval((count, *aval.shape), aval.dtype) for aval in avals])


class Registers(Protocol):
    """The registers of all bundles of one type, as a bundle knows them.

    Attributes:
        free: registers that nobody holds.
        unread: entries one of whose results died unread.
    """

    free: list[int]
    unread: list[int]

    @property
    def tables(self) -> frozenset[int]:
        """Positions of arrays that are changed in place."""
        ...

    def get(self, register: int) -> tuple[Array, ...]:
        """The numbers of a register."""
        ...


class Bundle:
    """Arrays that are computed together; `arrays` is None until they are needed.

    Attributes:
        avals: their shapes and dtypes.
        arrays: the numbers, where they are known on the host.
        file: the register file that holds them in the ledger; None before the ledger has met them.
        register: the number of its register.
        made_by: the number of the ledger's entry that makes it, until another entry reads it.
    """

    __slots__ = ("arrays", "avals", "file", "made_by", "register")

    def __init__(
        self,
        avals: BundleType,
        arrays: tuple[Array, ...] | None = None,
        file: Registers | None = None,
        register: int = -1,
        made_by: int = -1,
    ) -> None:
        self.avals = avals
        self.arrays = arrays
        self.file = file
        self.register = register
        self.made_by = made_by

    @classmethod
    def of(cls, arrays: Sequence[Array]) -> Bundle:
        """A bundle of arrays that exist."""
        return cls(tuple([aval_of(array) for array in arrays]), tuple(arrays))

    def __del__(self) -> None:
        file = self.file
        if file is not None:
            file.free.append(self.register)
            if self.made_by >= 0:
                file.unread.append(self.made_by)

    def __repr__(self) -> str:
        state = "computed" if self.arrays is not None else "pending"
        return f"Bundle({len(self.avals)} arrays, {num_bytes(self.avals)} bytes, {state})"
