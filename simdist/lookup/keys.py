"""From keys to positions, many at a time.

Text goes through a dictionary, integers through a binary search among the sorted keys: both are calls for a whole array, not for each key.

Invariant: a position is that of the key in the order of the keys that were given; -1 stands for a key that was not.

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.data.leaves import Array
from simdist.lookup.values import is_traced

__all__ = ["ABSENT", "IntegerKeys", "TextKeys"]

ABSENT = -1


class TextKeys:
    """Distinct strings, by position.

    Args:
        keys: the strings.

    Example:
        >>> TextKeys(["a", "b"]).positions(np.array([["b", "q"]])).tolist()
        [[1, -1]]
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = list(keys)
        self._positions = {key: position for position, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    def positions(self, values: Array) -> Array:
        """The position of each value: int64 of the same shape."""
        flat = values.ravel().tolist()
        return np.fromiter(map(self._positions.get, flat, repeat(ABSENT)), np.int64, len(flat)).reshape(values.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys."""
        return sum(len(key.encode("utf-8", "surrogatepass")) for key in self.keys)


class IntegerKeys:
    """Distinct integers, by position; they may be looked up in a traced step.

    Args:
        keys: the integers.

    Example:
        >>> IntegerKeys([30, 10]).positions(np.array([10, 99])).tolist()
        [1, -1]
    """

    def __init__(self, keys: Sequence[int]) -> None:
        self.keys = [int(key) for key in keys]
        array = np.array(self.keys, np.int64)
        self._order = np.argsort(array, kind="stable")
        self._sorted = array[self._order]

    def __len__(self) -> int:
        return len(self.keys)

    def positions(self, values: Any) -> Any:
        """The position of each value: integers of the same shape, of numpy or of the step."""
        if not self.keys:
            return (jnp if is_traced(values) else np).full(values.shape, ABSENT)
        if is_traced(values):
            return self._positions_in_a_step(values)
        found = np.minimum(np.searchsorted(self._sorted, values), len(self.keys) - 1)
        return np.where(self._sorted[found] == values, self._order[found], ABSENT)

    def _positions_in_a_step(self, values: Any) -> Any:
        limits = np.iinfo(np.dtype(values.dtype))
        fits = (self._sorted >= limits.min) & (self._sorted <= limits.max)  # no value of a step can equal the others
        keys, order = self._sorted[fits].astype(values.dtype), self._order[fits].astype(np.int32)
        if not len(keys):
            return jnp.full(values.shape, ABSENT)
        found = jnp.minimum(jnp.searchsorted(keys, values), len(keys) - 1)
        return jnp.where(jnp.asarray(keys)[found] == values, jnp.asarray(order)[found], ABSENT)

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys."""
        return 8 * len(self.keys)
