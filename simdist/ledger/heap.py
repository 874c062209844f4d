"""Rows of memory: where the replay machine keeps its numbers, one row for each bundle.

A *heap* is one array ``[rows, words]`` of 32-bit words. Bundles of all types that are about as wide share a heap, so that a narrow
bundle (a loss) does not pay for a wide one (a layer's gradient). The arrays of a bundle lie side by side in its row, each in
whole words and with the bytes that it has on the host; what comes after them is never read.

The words have the type float32, because most arrays have: those are moved as they are, all others by a bitcast. Nothing is ever
computed with words, so each pattern of bits stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simdist.program.arrays import Array, Arrays, HostArray
from simdist.program.values import Aval, BundleType

__all__ = ["WORD", "Heap", "Heaps", "Loose", "Packing"]

WORD = np.dtype(np.float32)
# Types whose elements are no whole bytes for XLA, or no numbers, and the type that holds all their values and is.
CARRIERS = {"bool": "uint8", "int2": "int8", "uint2": "uint8", "int4": "int8", "uint4": "uint8"}
# The widths at which another heap begins are this, its square, and so on, times NARROW_WORDS.
STEP = 4
NARROW_WORDS = 64
# Rows are as wide as a cache line, or several.
LINE_WORDS = 16
# A heap has at least so many rows, and as many as fit into so many bytes: few different sizes of a small one.
LEAST_ROWS = 4
LEAST_BYTES = 1 << 14


class _Extent(NamedTuple):
    """Where an array lies in its row, in words."""

    start: int
    words: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    carrier: np.dtype[np.generic]


class Packing:
    """How the arrays of one type of bundle lie in a row.

    Args:
        avals: the type.
        without: positions of arrays that do not lie in it.

    Attributes:
        words: their width.
    """

    def __init__(self, avals: BundleType, without: Collection[int] = ()) -> None:
        self.extents: list[_Extent] = []
        self.words = 0
        for position, aval in enumerate(avals):
            if position in without:
                continue
            extent = _extent(aval, self.words)
            self.extents.append(extent)
            self.words += extent.words

    # -- in a compiled computation --------------------------------------------------------------------------------

    def packed(self, arrays: Sequence[jax.Array], words: int) -> jax.Array:
        """A row [words] with these arrays; words at its end that they do not fill are zero."""
        parts = [_words_of(array, extent) for array, extent in zip(arrays, self.extents, strict=True)]
        if words > self.words or not parts:
            parts.append(jnp.zeros(words - self.words, WORD))
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)

    def read(self, heap: jax.Array, row: jax.Array) -> list[jax.Array]:
        """The arrays of a row of a heap [rows, words]."""
        return [
            _array_of(jax.lax.dynamic_slice(heap, (row, np.uint32(extent.start)), (1, extent.words)), extent) for extent in self.extents
        ]

    # -- on the host ----------------------------------------------------------------------------------------------

    def put(self, row: HostArray, arrays: Arrays) -> None:
        """Write arrays into a row [words] of the host."""
        for array, extent in zip(arrays, self.extents, strict=True):
            carried = np.ascontiguousarray(np.asarray(array).astype(extent.carrier, copy=False))
            row[extent.start :].view(np.uint8)[: carried.nbytes] = carried.reshape(-1).view(np.uint8)

    def get(self, row: HostArray) -> Arrays:
        """Copies of the arrays of a row [words] of the host."""
        found: list[Array] = []
        for extent in self.extents:
            size = math.prod(extent.shape) * extent.carrier.itemsize
            carried = row[extent.start :].view(np.uint8)[:size].copy().view(extent.carrier)
            found.append(carried.reshape(extent.shape).astype(extent.dtype, copy=False))
        return tuple(found)


# A row that is not in a heap yet: its number, how it is packed, and its arrays.
Loose = tuple[int, Packing, Arrays]


class Heap:
    """The rows of all bundles that are about equally wide.

    Attributes:
        words: the width of a row; grows with the types that it is used for.
        size: rows that were ever given out.
        stack: the numbers [rows, words]; None before the first replay.
    """

    def __init__(self) -> None:
        self.words = LINE_WORDS
        self.size = 0
        self.stack: jax.Array | None = None

    @property
    def capacity(self) -> int:
        """The number of rows of the stack: few different numbers."""
        return max(LEAST_ROWS, LEAST_BYTES // (self.words * WORD.itemsize), 1 << self.size.bit_length())

    def new(self) -> int:
        """A row that was never used."""
        self.size += 1
        return self.size - 1

    def widened(self, words: int) -> None:
        """Have room for so wide a bundle."""
        self.words = max(self.words, -(-words // LINE_WORDS) * LINE_WORDS)

    def copied(self, loose: Sequence[Loose]) -> jax.Array:
        """A copy of the stack that its owner may overwrite, with room for all rows, and with what is loose."""
        shape = (self.capacity, self.words)
        if self.stack is not None and not loose and self.stack.shape == shape:
            return self.stack.copy()
        rows = np.zeros(shape, np.uint32)
        if self.stack is not None:
            old = np.asarray(self.stack).view(np.uint32)[: self.capacity]  # wider rows may be fewer: those left out were never used
            rows[: old.shape[0], : old.shape[1]] = old
        for row, packing, arrays in loose:
            packing.put(rows[row], arrays)
        return jnp.asarray(rows.view(WORD))

    def has(self, number: int) -> bool:
        """Whether there are words of a row: one that was given out since the last replay may be none of the stack."""
        return self.stack is not None and number < self.stack.shape[0]

    def row(self, number: int) -> HostArray:
        """The words of a row on the host."""
        assert self.stack is not None
        return np.asarray(self.stack)[number]

    def replaced(self, stack: jax.Array | None) -> Callable[[], None]:
        """What is to be called, so that these are the numbers."""
        return partial(setattr, self, "stack", stack)


class Heaps:
    """The heaps of a ledger, by width."""

    def __init__(self) -> None:
        self.all: list[Heap] = []
        self._of_class: dict[int, Heap] = {}

    def of(self, packing: Packing) -> Heap:
        """The heap for a type of bundle."""
        number, bound = 0, NARROW_WORDS
        while bound < packing.words:
            number, bound = number + 1, bound * STEP
        if number not in self._of_class:
            self._of_class[number] = Heap()
            self.all.append(self._of_class[number])
        self._of_class[number].widened(packing.words)
        return self._of_class[number]


def _extent(aval: Aval, start: int) -> _Extent:
    dtype = jax.dtypes.canonicalize_dtype(jnp.dtype(aval.dtype))
    carrier = jnp.dtype(CARRIERS.get(dtype.name, dtype))
    size = math.prod(aval.shape) * carrier.itemsize
    return _Extent(start, -(-size // WORD.itemsize), aval.shape, dtype, carrier)


def _words_of(array: jax.Array, extent: _Extent) -> jax.Array:
    flat = array.reshape(-1)
    if extent.dtype != extent.carrier:
        flat = flat.astype(extent.carrier)
    if extent.carrier.kind == "c":
        flat = jnp.stack([flat.real, flat.imag], axis=1).reshape(-1)
    size = flat.dtype.itemsize
    if size < WORD.itemsize:
        # As whole numbers: XLA moves short floating-point numbers by way of longer ones, which changes what a NaN carries.
        each = WORD.itemsize // size
        whole = jax.lax.bitcast_convert_type(flat, np.dtype(f"u{size}"))
        flat = jnp.pad(whole, (0, extent.words * each - flat.size)).reshape(-1, each)
    return flat if flat.dtype == WORD else jax.lax.bitcast_convert_type(flat, WORD).reshape(-1)


def _array_of(words: jax.Array, extent: _Extent) -> jax.Array:
    carrier, count = extent.carrier, math.prod(extent.shape)
    flat, size = words.reshape(-1), carrier.itemsize
    if size < WORD.itemsize:
        whole = jax.lax.bitcast_convert_type(flat, np.dtype(f"u{size}")).reshape(-1)[:count]
        flat = jax.lax.bitcast_convert_type(whole, carrier)
    elif carrier.kind == "c":
        parts = _array_of(words, extent._replace(shape=(2 * count,), dtype=_PART[size], carrier=_PART[size]))
        flat = jax.lax.complex(parts[0::2], parts[1::2])
    elif size > WORD.itemsize:
        flat = jax.lax.bitcast_convert_type(flat.reshape(-1, size // WORD.itemsize), carrier)
    elif carrier != WORD:
        flat = jax.lax.bitcast_convert_type(flat, carrier)
    return (flat if extent.dtype == carrier else flat.astype(extent.dtype)).reshape(extent.shape)


# What a complex number of so many bytes is made of.
_PART = {8: np.dtype(np.float32), 16: np.dtype(np.float64)}
