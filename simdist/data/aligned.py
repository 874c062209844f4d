"""Large arrays in memory that begins where JAX wants it to: it computes with them as they are, and copies all others.

What may live in this file: where arrays lie. Not: what is in them.
"""

from __future__ import annotations

import math

import numpy as np

from simdist.program.arrays import HostArray

__all__ = ["aligned_copy", "rows_of", "rows_taken"]

# XLA reads arrays on the host where they are if their first byte is at a multiple of this.
ALIGNMENT_BYTES = 64
# A smaller array is copied in less time than it takes to look.
LARGE_BYTES = 1 << 16
# Who keeps a part of a column keeps all of it: so many times as much, at most.
MOST_KEPT = 64


def aligned_copy(array: HostArray) -> HostArray:
    """A copy that nobody can write to; aligned, if it is large.

    Example:
        >>> column = aligned_copy(np.zeros((1000, 64), np.float32))
        >>> column.ctypes.data % 64, column.shape, column.flags.writeable
        (0, (1000, 64), False)
    """
    if not _is_aligned(array.dtype, array.size):
        copy = array.copy()
    else:
        copy = _aligned(array.shape, array.dtype)
        copy[...] = array
    return _closed(copy)


def rows_taken(column: HostArray, rows: HostArray) -> HostArray:
    """Some rows of a column, copied: [*rows.shape, ...]; aligned, if they are large."""
    if not _is_aligned(column.dtype, rows.size * math.prod(column.shape[1:])):
        return column.take(rows, 0)
    if rows.min() < -len(column) or rows.max() >= len(column):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of a column with {len(column)} rows")
    found = _aligned((*rows.shape, *column.shape[1:]), column.dtype)
    return column.take(rows, 0, found, "wrap")  # any other mode would copy once more


def rows_of(column: HostArray, rows: HostArray) -> HostArray:
    """Some rows of a read-only column, as `rows_taken` gives them, but nobody can write to them: where the rows follow each other, and are
    large and many, they are a part of the column.

    Example:
        >>> column = aligned_copy(np.arange(300_000).reshape(-1, 3))
        >>> some, others = rows_of(column, np.arange(10_000, 40_000)), rows_of(column, np.arange(40_000)[::-1])
        >>> np.shares_memory(some, column), some[0].tolist(), np.shares_memory(others, column), others[-1].tolist()
        (True, [30000, 30001, 30002], False, [0, 1, 2])
    """
    is_large = _is_aligned(column.dtype, rows.size * math.prod(column.shape[1:])) and len(column) <= MOST_KEPT * rows.size
    if is_large and _follow_each_other(flat := rows.reshape(-1)):
        return column[flat[0] : flat[-1] + 1].reshape(*rows.shape, *column.shape[1:])
    return _closed(rows_taken(column, rows))


def _is_aligned(dtype: np.dtype, size: int) -> bool:
    """Whether so many elements are worth it, and can be."""
    return size * dtype.itemsize >= LARGE_BYTES and not dtype.hasobject and ALIGNMENT_BYTES % dtype.itemsize == 0


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> HostArray:
    """An array without contents."""
    size = math.prod(shape)
    memory = np.empty(size + ALIGNMENT_BYTES // dtype.itemsize, dtype)
    start = -memory.ctypes.data % ALIGNMENT_BYTES // dtype.itemsize
    return memory[start : start + size].reshape(shape)


def _closed(array: HostArray) -> HostArray:
    """An array, and the memory that it lies in, to which nobody can write any more."""
    if isinstance(array.base, np.ndarray):
        array.base.flags.writeable = False
    array.flags.writeable = False
    return array


def _follow_each_other(rows: HostArray) -> bool:
    first, last = int(rows[0]), int(rows[-1])
    return first >= 0 and last - first == len(rows) - 1 and np.array_equal(rows, np.arange(first, last + 1))
