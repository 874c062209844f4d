"""Partitioners: the number of shards of a variable on parameter servers.

A partitioner is any callable ``(shape, dtype, axis=0) -> list[int]`` that says for every axis into how many parts it
is cut. Three come with the package: a fixed number of shards, as many as a least size of a shard allows, and as many
as a greatest size demands. A variable is cut along one axis, by default its first, so that a row is always whole and lives on
one server.

Invariants: there is at least one shard and never more than there are rows, an empty axis is not cut, and a partitioner
looks at the shape and the dtype, never at values. Rows are dealt by the 'div' rule: shards are contiguous, and the
first ones get one row more where the number does not divide.

Taught in lesson 06.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Protocol

import numpy as np

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import DTypeLike

__all__ = [
    "FixedShardsPartitioner",
    "MaxSizePartitioner",
    "MinSizePartitioner",
    "Partitioner",
    "checked_cut",
    "checked_partitions",
    "row_ranges",
]

DEFAULT_MIN_SHARD_BYTES = 256 << 10
DEFAULT_BYTES_PER_STRING = 16  # the length of text is not part of a dtype, so it is assumed


class Partitioner(Protocol):
    """The protocol of partitioners: the number of parts of each axis of a variable."""

    def __call__(self, shape: Sequence[int], dtype: DTypeLike, axis: int = 0) -> Sequence[int]:
        """The number of parts of every axis.

        Args:
            shape: shape of the whole variable.
            dtype: its dtype, as numpy or JAX know it, or ``"string"``.
            axis: the axis to cut.

        Returns:
            One number for each axis, 1 for every axis that is not cut.
        """
        ...


class FixedShardsPartitioner:
    """Cuts every variable into the same number of shards.

    Args:
        num_shards: how many; a variable with fewer rows gets one shard for each row.

    Raises:
        TypeError: if `num_shards` is no whole number.
        InvalidArgumentError: if `num_shards` is below 1.

    Example:
        >>> FixedShardsPartitioner(2)((10, 3), "float32")
        [2, 1]
    """

    def __init__(self, num_shards: int) -> None:
        self.num_shards = _at_least("num_shards", num_shards, 1)

    def __call__(self, shape: Sequence[int], dtype: DTypeLike, axis: int = 0) -> list[int]:
        """The number of parts of every axis, as `Partitioner` says."""
        shape, axis = _checked_shape(shape, axis)
        return _cut(shape, axis, self.num_shards)

    def __repr__(self) -> str:
        return f"FixedShardsPartitioner({self.num_shards})"


class MinSizePartitioner:
    """Cuts a variable into as many shards as fit when a shard should have a least size.

    The count is the size divided by the least size, rounded up: the last shards may be smaller than asked.

    Args:
        min_shard_bytes: the least size of a shard, in bytes.
        max_shards: no more shards than this.
        bytes_per_string: assumed length of one element of a text variable, in bytes.

    Raises:
        TypeError: if an argument is no whole number.
        InvalidArgumentError: if an argument is below 1.

    Example:
        >>> MinSizePartitioner(min_shard_bytes=4, max_shards=10)((6, 1), "float32")
        [6, 1]
    """

    def __init__(
        self,
        min_shard_bytes: int = DEFAULT_MIN_SHARD_BYTES,
        max_shards: int = 1,
        bytes_per_string: int = DEFAULT_BYTES_PER_STRING,
    ) -> None:
        self.min_shard_bytes = _at_least("min_shard_bytes", min_shard_bytes, 1)
        self.max_shards = _at_least("max_shards", max_shards, 1)
        self.bytes_per_string = _at_least("bytes_per_string", bytes_per_string, 1)

    def __call__(self, shape: Sequence[int], dtype: DTypeLike, axis: int = 0) -> list[int]:
        """The number of parts of every axis, as `Partitioner` says."""
        shape, axis = _checked_shape(shape, axis)
        num_bytes = math.prod(shape) * _bytes_per_element(dtype, self.bytes_per_string)
        return _cut(shape, axis, min(self.max_shards, _ceil_div(num_bytes, self.min_shard_bytes)))

    def __repr__(self) -> str:
        return f"MinSizePartitioner(min_shard_bytes={self.min_shard_bytes}, max_shards={self.max_shards})"


class MaxSizePartitioner:
    """Cuts a variable into as few shards as possible when a shard may have a greatest size.

    A row is never cut: where one row is larger than a shard may be, each row is a shard.

    Args:
        max_shard_bytes: the greatest size of a shard, in bytes.
        max_shards: no more shards than this, even if they are then too large; None or 0 for any number.
        bytes_per_string: assumed length of one element of a text variable, in bytes.

    Raises:
        TypeError: if an argument is no whole number.
        InvalidArgumentError: if `max_shard_bytes` or `bytes_per_string` is below 1, or `max_shards` below 0.

    Example:
        >>> MaxSizePartitioner(max_shard_bytes=8)((6, 1), "float32")
        [3, 1]
    """

    def __init__(
        self,
        max_shard_bytes: int,
        max_shards: int | None = None,
        bytes_per_string: int = DEFAULT_BYTES_PER_STRING,
    ) -> None:
        self.max_shard_bytes = _at_least("max_shard_bytes", max_shard_bytes, 1)
        self.max_shards = None if max_shards is None else (_at_least("max_shards", max_shards, 0) or None)
        self.bytes_per_string = _at_least("bytes_per_string", bytes_per_string, 1)

    def __call__(self, shape: Sequence[int], dtype: DTypeLike, axis: int = 0) -> list[int]:
        """The number of parts of every axis, as `Partitioner` says."""
        shape, axis = _checked_shape(shape, axis)
        row_elements = math.prod(size for i, size in enumerate(shape) if i != axis)
        row_bytes = row_elements * _bytes_per_element(dtype, self.bytes_per_string)
        rows_per_shard = max(1, self.max_shard_bytes // row_bytes) if row_bytes else max(1, shape[axis])
        num_shards = _ceil_div(shape[axis], rows_per_shard)
        return _cut(shape, axis, num_shards if self.max_shards is None else min(self.max_shards, num_shards))

    def __repr__(self) -> str:
        return f"MaxSizePartitioner(max_shard_bytes={self.max_shard_bytes}, max_shards={self.max_shards})"


def row_ranges(num_rows: int, num_shards: int) -> list[tuple[int, int]]:
    """The rows of each shard, by the 'div' rule: contiguous, and the first shards get one row more.

    Args:
        num_rows: rows of the whole variable.
        num_shards: shards asked for; there are never more than rows.

    Returns:
        ``(first row, row after the last)`` of each shard, in order.

    Raises:
        InvalidArgumentError: if `num_rows` is negative or `num_shards` is below 1.

    Example:
        >>> row_ranges(13, 5)
        [(0, 3), (3, 6), (6, 9), (9, 11), (11, 13)]
    """
    num_rows = _at_least("num_rows", num_rows, 0)
    num_shards = min(_at_least("num_shards", num_shards, 1), max(num_rows, 1))
    base, extra = divmod(num_rows, num_shards)
    starts = [base * shard + min(shard, extra) for shard in range(num_shards + 1)]
    return list(pairwise(starts))


def checked_partitions(partitions: object, shape: Sequence[int], axis: int | None = None) -> int:
    """The number of shards that a partitioner asked for, if its answer can be followed.

    Args:
        partitions: what the partitioner returned: one number for each axis.
        shape: shape of the whole variable.
        axis: the only axis that may be cut; None: any one.

    Returns:
        Shards along the axis that is cut, at least 1 and at most as many as its length; 1 means an ordinary variable.

    Raises:
        InvalidArgumentError: if this is not one number for each axis, one is below 1, or several axes or another one are cut.

    Example:
        >>> checked_partitions([5, 1, 1], (2, 3, 4)), checked_partitions([1, 3], (2, 6))
        (2, 3)
    """
    cut, count = checked_cut(partitions, shape)
    if axis is not None and count > 1 and cut != _checked_shape(shape, axis)[1]:
        raise InvalidArgumentError(
            f"a variable can be cut along axis {axis} only here; the variable_partitioner returned {partitions!r} for shape {tuple(shape)}."
        )
    return count


def checked_cut(partitions: object, shape: Sequence[int]) -> tuple[int, int]:
    """The axis that a partitioner cuts, and the number of shards; as `checked_partitions`."""
    shape, _ = _checked_shape(shape, 0)
    expected = f"a list of {len(shape)} whole numbers, one for each axis of shape {shape}"
    if not isinstance(partitions, list | tuple | np.ndarray) or len(partitions) != len(shape):
        raise InvalidArgumentError(f"a variable_partitioner must return {expected}; got {partitions!r}.")
    try:
        counts = [operator.index(count) for count in partitions]
    except TypeError:
        raise InvalidArgumentError(f"a variable_partitioner must return {expected}; got {partitions!r}.") from None
    if min(counts) < 1:
        raise InvalidArgumentError(f"the numbers of a variable_partitioner must be 1 or more; got {counts}.")
    cut = [axis for axis, count in enumerate(counts) if count != 1]
    if len(cut) > 1:
        raise InvalidArgumentError(
            f"a variable can be cut along one axis only, so every other number must be 1; "
            f"the variable_partitioner returned {counts} for shape {shape}."
        )
    axis = cut[0] if cut else 0
    return axis, max(1, min(counts[axis], shape[axis]))


def _cut(shape: tuple[int, ...], axis: int, num_shards: int) -> list[int]:
    """1 for every axis but `axis`, which gets `num_shards`, at least 1 and at most its length."""
    partitions = [1] * len(shape)
    partitions[axis] = max(1, min(num_shards, shape[axis]))
    return partitions


def _ceil_div(amount: int, size: int) -> int:
    return -(-amount // size)  # in whole numbers: a float would be wrong for very large variables


def _at_least(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number; got {value!r}.")
    if int(value) < least:
        raise InvalidArgumentError(f"{name} must be {least} or more; got {value}.")
    return int(value)


def _checked_shape(shape: Sequence[int], axis: int) -> tuple[tuple[int, ...], int]:
    """The shape as a tuple of ints, and the axis counted from the front."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise InvalidArgumentError(f"a variable to be cut needs a fully known shape; got {shape!r}.") from None
    axis = whole_number(axis, "axis")
    if not -len(sizes) <= axis < len(sizes):
        what = "a scalar cannot be cut into shards" if not sizes else f"axis {axis} is outside of shape {sizes}"
        raise InvalidArgumentError(f"{what}: give a shape with that axis.")
    return sizes, axis % len(sizes)


def _bytes_per_element(dtype: DTypeLike, bytes_per_string: int) -> int:
    if isinstance(dtype, str) and dtype in ("string", "str"):
        return bytes_per_string
    try:
        known = np.dtype(dtype)
    except (TypeError, UnicodeError) as error:
        raise TypeError(f'dtype must be a dtype such as "float32", or "string"; got {dtype!r}.') from error
    return bytes_per_string if known.kind in "OSUT" else known.itemsize
