"""Large arrays lie where JAX computes with them as they are, and rows that follow each other are not copied."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from simdist.data import Dataset
from simdist.data.aligned import LARGE_BYTES, aligned_copy, rows_of, rows_taken
from simdist.input import DistributedInput
from simdist.input.replica_batch import leaves_of_all, replica_batches

ROWS = 5_000


def column(dtype: Any = np.float32) -> Any:
    return aligned_copy(np.arange(ROWS * 6).reshape(ROWS, 2, 3).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.complex64, bool])
def test_copy_is_aligned_equal_and_closed(dtype: Any) -> None:
    source = (np.arange(40 * LARGE_BYTES) % 1_000).astype(dtype).reshape(40, -1)[:, ::3]
    copy = aligned_copy(source)
    assert copy.ctypes.data % 64 == 0
    assert copy.dtype == source.dtype
    assert copy.flags.c_contiguous
    np.testing.assert_array_equal(copy, source)
    assert not np.shares_memory(copy, source)
    with pytest.raises(ValueError, match="read-only"):
        copy[0] = 0
    assert copy.base is not None
    assert not copy.base.flags.writeable, "nor by way of the memory that it lies in"


@pytest.mark.parametrize("source", [np.array(["a", "bc"] * LARGE_BYTES), np.array([None, "x"] * LARGE_BYTES, object), np.arange(3)])
def test_what_is_small_or_not_numbers_is_copied_as_it_is(source: Any) -> None:
    copy = aligned_copy(source)
    assert copy.tolist() == source.tolist()
    assert not copy.flags.writeable
    rows = np.arange(len(source))[::-1]
    assert rows_taken(source, rows).tolist() == rows_of(copy, rows).tolist() == source[::-1].tolist()


def test_jax_computes_with_an_aligned_array_as_it_is() -> None:
    array = column()
    assert np.shares_memory(np.asarray(jax.device_put(array)), array) == (jax.default_backend() == "cpu")


@pytest.mark.parametrize("shape", [(ROWS,), (50, ROWS // 50)])
def test_rows_in_any_order_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(0).permutation(ROWS).reshape(shape)
    found = rows_taken(column(), rows)
    np.testing.assert_array_equal(found, np.asarray(column())[rows])
    assert found.ctypes.data % 64 == 0
    found[0] = 0  # it belongs to the caller


def test_rows_that_follow_each_other_are_a_part_of_the_column_and_others_are_not() -> None:
    array, start = column(), 7
    part = np.arange(start, ROWS - 3)
    np.testing.assert_array_equal(rows_of(array, part), array[part])
    assert np.shares_memory(rows_of(array, part), array)
    swapped = part.copy()
    swapped[[5, 6]] = swapped[[6, 5]]
    for rows in (swapped, part[::-1], np.concatenate([part[:-1], part[-2:-1]]), part - ROWS):
        found = rows_of(array, rows)
        np.testing.assert_array_equal(found, array[rows])
        assert not np.shares_memory(found, array)
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 0


@pytest.mark.parametrize("shape", [(4, 1000), (2, 2, 1000)])
def test_rows_of_lanes_that_follow_each_other_are_a_part_of_the_column(shape: tuple[int, ...]) -> None:
    array, rows = column(), np.arange(5, 4005).reshape(shape)
    found = rows_of(array, rows)
    np.testing.assert_array_equal(found, array[rows])
    assert np.shares_memory(found, array)
    assert not np.shares_memory(rows_of(array, rows[::-1]), array)


def test_a_small_part_does_not_keep_a_large_column() -> None:
    array = aligned_copy(np.zeros((6_500, 20_000 // 4), np.float32))
    assert not np.shares_memory(rows_of(array, np.arange(100)), array)
    assert np.shares_memory(rows_of(array, np.arange(102)), array), "a 64th of it"


@pytest.mark.parametrize("row", [ROWS, -ROWS - 1])
def test_row_that_does_not_exist_is_an_error(row: int) -> None:
    rows = np.arange(ROWS)
    rows[3] = row
    with pytest.raises(IndexError, match="5000 rows"):
        rows_taken(column(), rows)


@pytest.mark.parametrize("mapped", [False, True])
def test_batches_of_replicas_are_parts_of_the_dataset_where_its_rows_follow_each_other(mapped: bool) -> None:
    source = np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 6)
    dataset = Dataset.from_tensor_slices(source)
    dataset = dataset.map(lambda row: row * 2) if mapped else dataset
    for given, expected in ((dataset.batch(ROWS), source), (dataset.skip(3).batch(ROWS), source[3:])):
        steps = [step for _ in range(2) for step in DistributedInput(given, replicas_per_worker=2)]
        found = [leaves_of_all(replica_batches(step))[0] for step in steps]
        for parts in found:
            np.testing.assert_array_equal(np.concatenate(parts), expected * (2 if mapped else 1))
        assert mapped or np.shares_memory(found[0][1], found[1][1])


def test_batches_in_another_order_have_their_rows() -> None:
    source = np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 6)
    (step,) = DistributedInput(Dataset.from_tensor_slices(source).shuffle(ROWS, seed=1).batch(ROWS), replicas_per_worker=2)
    found = np.concatenate(leaves_of_all(replica_batches(step))[0])
    assert found[:, 0].tolist() != source[:, 0].tolist()
    assert sorted(found.tolist()) == source.tolist()
