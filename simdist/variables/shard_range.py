"""The range of a shard: which part of the whole variable it is, along the one axis that is partitioned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import jax
import numpy as np

from simdist.variables.partitioners import row_ranges

__all__ = ["ShardRange", "equal_ranges", "ranges_of_sizes"]

Sliced = TypeVar("Sliced", jax.Array, np.ndarray)


@dataclass(frozen=True)
class ShardRange:
    """The part of a variable that one shard holds.

    Attributes:
        axis: that is partitioned, from 0.
        start, stop: first and one-past-last index along it.
        size: of the whole variable along it.
        number, count: this is shard `number` of `count`.

    Example:
        >>> import numpy as np
        >>> first, second = equal_ranges(1, 5, 2)
        >>> second.of(np.arange(10).reshape(2, 5)).tolist(), second.whole_shape((2, 2))
        ([[3, 4], [8, 9]], (2, 5))
    """

    axis: int
    start: int
    stop: int
    size: int
    number: int = 0
    count: int = 1

    @property
    def index(self) -> tuple[slice, ...]:
        """The index that takes the part out of the whole array."""
        return (*[slice(None)] * self.axis, slice(self.start, self.stop))

    def of(self, array: Sliced) -> Sliced:
        """This part of a whole array."""
        return array[self.index]

    def shape_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of this part of an array of a shape."""
        return (*shape[: self.axis], self.stop - self.start, *shape[self.axis + 1 :])

    def whole_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the whole array whose part has a shape."""
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :])

    def offset(self, num_axes: int) -> tuple[int, ...]:
        """The index of the part's first element in the whole array."""
        return tuple(self.start if axis == self.axis else 0 for axis in range(num_axes))

    def __str__(self) -> str:
        text = f"[{self.start}:{self.stop}]"
        return text if self.axis == 0 else f"{text} of axis {self.axis}"


def equal_ranges(axis: int, size: int, count: int) -> list[ShardRange]:
    """The ranges of `count` shards along an axis of length `size`, by the 'div' rule (`row_ranges`)."""
    bounds = row_ranges(size, count)
    return [ShardRange(axis, start, stop, size, number, len(bounds)) for number, (start, stop) in enumerate(bounds)]


def ranges_of_sizes(axis: int, sizes: Sequence[int]) -> list[ShardRange]:
    """The ranges of shards of these lengths along an axis, one after the other."""
    starts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    return [ShardRange(axis, starts[number], starts[number + 1], starts[-1], number, len(sizes)) for number in range(len(sizes))]
