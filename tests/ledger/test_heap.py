"""Bundles in rows of memory: what comes out are the bits that went in, by the host, by a compiled computation, and by both."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.ledger.heap import LINE_WORDS, WORD, Heap, Heaps, Packing
from simdist.ledger.registers import RegisterFile
from simdist.program.values import Aval, BundleType

DTYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "int4", "uint4"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
]
SHAPES = [(), (0,), (1,), (3,), (4,), (2, 3), (5, 1, 7)]
BUNDLES = st.lists(st.builds(Aval, st.sampled_from(SHAPES), st.sampled_from(DTYPES)), max_size=3).map(tuple)
SPARE = 3  # words behind the bundle


@pytest.fixture(autouse=True)
def wide_types() -> Any:
    with jax.enable_x64(True):
        yield


def any_bits(aval: Aval, rng: np.random.Generator) -> Any:
    """An array of random bits: infinities, denormals and NaN of any payload are among them."""
    dtype, count = jnp.dtype(aval.dtype), int(np.prod(aval.shape))
    if aval.dtype in ("bool", "int4", "uint4"):
        return rng.integers(0, 2, count).astype(dtype).reshape(aval.shape)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(aval.shape)


def bits(arrays: Any) -> list[tuple[str, tuple[int, ...], bytes]]:
    return [(str(array.dtype), array.shape, np.asarray(array).tobytes()) for array in arrays]


def packed_on_host(packing: Packing, arrays: Any) -> Any:
    row = np.full(packing.words + SPARE, 7, np.uint32)
    row[: packing.words] = 0
    packing.put(row, arrays)
    return row


@examples(15)
@given(avals=BUNDLES, seed=st.integers(0, 1000))
def test_row_gives_back_the_bits_of_arrays_of_any_types(avals: BundleType, seed: int) -> None:
    with jax.enable_x64(True):
        packing, rng = Packing(avals), np.random.default_rng(seed)
        arrays = tuple(any_bits(aval, rng) for aval in avals)
        row = packed_on_host(packing, arrays)
        assert bits(packing.get(row)) == bits(arrays)
        assert row[packing.words :].tolist() == [7] * SPARE  # nobody else's words
        heap = jnp.asarray(np.stack([np.zeros_like(row), row]).view(WORD))
        both: Any = jax.jit(lambda given, heap, row: (packing.packed(given, packing.words + SPARE), packing.read(heap, row)))
        compiled, read = both(arrays, heap, np.uint32(1))
        assert compiled.dtype == WORD
        assert np.asarray(compiled).view(np.uint32)[: packing.words].tolist() == row[: packing.words].tolist()
        assert bits(read) == bits(arrays)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_pattern_of_bits_of_a_type_comes_back(dtype: str) -> None:
    rng = np.random.default_rng(1)
    aval = Aval((1 << 12,), dtype)
    arrays = (any_bits(aval, rng),)
    packing = Packing((aval,))
    through: Any = jax.jit(lambda given: packing.read(packing.packed(given, packing.words)[None], jnp.uint32(0)))(arrays)
    assert bits(through) == bits(arrays)


def test_words_of_a_float_keep_the_payload_of_a_signalling_nan() -> None:
    pattern = np.array([0x7F800001, 0xFFC12345, 1], np.uint32)
    packing = Packing((Aval((3,), "float32"), Aval((3,), "uint32")))
    found = jax.jit(lambda a, b: packing.packed((a, b), 6))(pattern.view(np.float32), pattern)
    assert np.asarray(found).view(np.uint32).tolist() == [*pattern.tolist(), *pattern.tolist()]


def test_copy_of_a_heap_keeps_rows_while_it_grows_and_gets_wider() -> None:
    narrow, wide = Packing((Aval((2,), "int32"),)), Packing((Aval((LINE_WORDS + 1,), "float32"),))
    heaps = Heaps()
    heap = heaps.of(narrow)
    first = heap.new()
    heap.stack = heap.copied([(first, narrow, (np.array([1, -2], np.int32),))])
    before = heap.stack.shape
    assert heaps.of(wide) is heap
    rows = [heap.new() for _ in range(before[0])]
    values = np.arange(LINE_WORDS + 1, dtype=np.float32)
    heap.stack = heap.copied([(rows[-1], wide, (values,))])
    assert heap.stack.shape[0] > before[0] and heap.stack.shape[1] > before[1]
    assert bits(narrow.get(heap.row(first))) == bits([np.array([1, -2], np.int32)])
    assert bits(wide.get(heap.row(rows[-1]))) == bits([values])


def test_a_heap_that_gets_wider_and_has_fewer_rows_keeps_those_that_are_used() -> None:
    narrow, wide = Packing((Aval((90,), "float32"),)), Packing((Aval((180,), "float32"),))
    heaps = Heaps()
    heap, first = heaps.of(narrow), np.arange(90, dtype=np.float32)
    row = heap.new()
    heap.replaced(heap.copied([(row, narrow, (first,))]))()
    before = heap.capacity
    assert heaps.of(wide) is heap and heap.capacity < before
    heap.replaced(heap.copied([]))()
    assert bits(narrow.get(heap.row(row))) == bits([first])


def test_copy_of_a_heap_is_its_own_memory() -> None:
    heap = Heap()
    heap.stack = heap.copied([])
    copy = heap.copied([])
    copy.delete()
    assert not heap.stack.is_deleted()


def test_narrow_bundles_do_not_pay_for_wide_ones() -> None:
    heaps = Heaps()
    loss, layer = heaps.of(Packing((Aval((), "float32"),))), heaps.of(Packing((Aval((64, 64), "float32"),)))
    assert (loss.words, layer.words) == (LINE_WORDS, 64 * 64)
    assert heaps.of(Packing((Aval((3,), "float32"),))) is loss
    assert heaps.all == [loss, layer]


def test_a_heap_has_few_sizes_and_always_a_row_that_nobody_has() -> None:
    heap, sizes = Heap(), list[int]()
    for _ in range(3000):
        sizes.append(heap.capacity)
        assert heap.new() < heap.capacity - 1
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 5


def test_a_register_of_which_the_heap_has_no_row_yet_leaves_nothing_there_when_arrays_are_kept_out() -> None:
    """It was given out after the last scan, for what is still to be computed; the rows of the heap were full."""
    file = RegisterFile(0, (Aval((2,), "float32"), Aval((3,), "float32")), [], Heaps())
    first = file.new()
    file.heap.stack = stack = file.heap.copied([])
    while file.size <= stack.shape[0]:
        file.new()
    file.keep_out([1], ())
    assert first in file.loose and file.given[-1] not in file.loose
