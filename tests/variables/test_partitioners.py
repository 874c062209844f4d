"""Partitioners beyond the conformance cases: odd arguments, and what holds for every shape."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.errors import InvalidArgumentError
from simdist.variables.partitioners import (
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    Partitioner,
    checked_partitions,
    row_ranges,
)

shapes = st.lists(st.integers(0, 50), min_size=1, max_size=3)
partitioners = st.one_of(
    st.builds(FixedShardsPartitioner, st.integers(1, 60)),
    st.builds(MinSizePartitioner, st.integers(1, 1000), st.integers(1, 60)),
    st.builds(MaxSizePartitioner, st.integers(1, 1000), st.none() | st.integers(0, 60)),
)


@given(partitioners, shapes, st.data())
def test_answer_can_always_be_followed(partitioner: Partitioner, shape: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    partitions = partitioner(shape, "float32", axis=axis)
    shards = checked_partitions(partitions, shape, axis)
    assert list(partitions)[axis] == shards
    assert 1 <= shards <= max(shape[axis], 1)


@given(st.integers(0, 300), st.integers(1, 80))
def test_row_ranges_cover_every_row_once_and_evenly(num_rows: int, num_shards: int) -> None:
    ranges = row_ranges(num_rows, num_shards)
    assert [row for first, end in ranges for row in range(first, end)] == list(range(num_rows))
    sizes = [end - first for first, end in ranges]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 5000))
def test_max_size_keeps_shards_below_the_limit_or_one_row_each(rows: int, columns: int, limit: int) -> None:
    shards = MaxSizePartitioner(limit)((rows, columns), "float32")[0]
    largest = max(end - first for first, end in row_ranges(rows, shards))
    assert largest * columns * 4 <= limit or largest == 1


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), jnp.float32, jnp.zeros(1).dtype])
def test_dtype_may_be_written_in_every_way(dtype: Any) -> None:
    assert MinSizePartitioner(8, 100)((10,), dtype) == [5]


def test_bfloat16_has_two_bytes() -> None:
    assert MinSizePartitioner(4, 100)((10,), jnp.bfloat16) == [5]


@pytest.mark.parametrize("dtype", ["string", str, bytes, object, np.dtype("U5")])
def test_text_has_its_assumed_length(dtype: Any) -> None:
    assert MinSizePartitioner(8, 100, bytes_per_string=8)((10,), dtype) == [10]


def test_unknown_dtype_raises() -> None:
    with pytest.raises(TypeError, match="float23"):
        MinSizePartitioner(8, 100)((10,), "float23")


def test_empty_axes_are_not_cut() -> None:
    assert MaxSizePartitioner(1)((0, 3), "float32") == [1, 1]
    assert MaxSizePartitioner(1)((3, 0), "float32") == [1, 1]
    assert row_ranges(0, 4) == [(0, 0)]


def test_very_large_variable_is_counted_exactly() -> None:
    rows = 2**53 + 1
    assert MinSizePartitioner(1, 2**60)((rows,), "int8") == [rows]


def test_unknown_dimension_raises() -> None:
    shape: Any = (None, 3)
    with pytest.raises(InvalidArgumentError, match="fully known shape"):
        FixedShardsPartitioner(2)(shape, "float32")


@pytest.mark.parametrize(
    ("build", "error", "name"),
    [
        (lambda: FixedShardsPartitioner(2.0), TypeError, "num_shards"),  # pyright: ignore
        (lambda: FixedShardsPartitioner(True), TypeError, "num_shards"),
        (lambda: MinSizePartitioner(0), InvalidArgumentError, "min_shard_bytes"),
        (lambda: MinSizePartitioner(4, 0), InvalidArgumentError, "max_shards"),
        (lambda: MinSizePartitioner(4, 1, 0), InvalidArgumentError, "bytes_per_string"),
        (lambda: MaxSizePartitioner(4, 1, 0), InvalidArgumentError, "bytes_per_string"),
        (lambda: row_ranges(-1, 2), InvalidArgumentError, "num_rows"),
        (lambda: row_ranges(3, 0), InvalidArgumentError, "num_shards"),
    ],
)
def test_unusable_argument_is_named(build: Any, error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        build()


def test_answer_that_cuts_the_wrong_axis_says_which_one_may_be() -> None:
    with pytest.raises(InvalidArgumentError, match=r"axis 0 only.*\[1, 2\].*\(4, 4\)"):
        checked_partitions([1, 2], (4, 4), axis=0)


@pytest.mark.parametrize("answer", [[0, 1], [-1, 1], [1, 0]])
def test_answer_with_no_shard_along_an_axis_raises(answer: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match="must be 1 or more"):
        checked_partitions(answer, (4, 4))


def test_answer_along_another_axis_is_fine_where_asked() -> None:
    assert checked_partitions(np.array([1, 2]), (4, 4), axis=1) == 2


@pytest.mark.parametrize("answer", [2, "21", [2.0, 1], ["a", "b"], {2: 1}])
def test_answer_that_is_no_list_of_numbers_raises(answer: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="list of 2 whole numbers"):
        checked_partitions(answer, (4, 4))


def test_repr_is_what_one_types() -> None:
    for partitioner in (FixedShardsPartitioner(2), MinSizePartitioner(4, 3), MaxSizePartitioner(4, 3)):
        assert repr(eval(repr(partitioner))) == repr(partitioner)
