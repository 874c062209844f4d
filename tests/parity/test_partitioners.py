"""Conformance cases B024 to B034: how many shards, and which rows are in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.variables.partitioners import (
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    checked_partitions,
    row_ranges,
)

KIB_256 = 256 << 10


@pytest.mark.parametrize(("rows", "shards"), [(10, 1), (65536, 1), (65537, 2), (448 * 256, 2)])
def test_b024_count_is_the_ceiling_of_bytes_over_the_minimum(rows: int, shards: int) -> None:
    assert MinSizePartitioner(KIB_256, max_shards=2)((rows,), "float32") == [shards]


def test_b025_never_more_shards_than_rows() -> None:
    assert MinSizePartitioner(KIB_256, max_shards=2)((1, 10**6), "float32") == [1, 1]
    assert MinSizePartitioner(KIB_256, max_shards=10)((3, 2**20), "float32") == [3, 1]


@pytest.mark.parametrize(("rows", "shards"), [(7, 2), (8, 2), (9, 3)])
def test_b026_up_to_max_shards(rows: int, shards: int) -> None:
    assert MinSizePartitioner(KIB_256, max_shards=3)((rows, 16384), "float32") == [shards, 1]
    assert MinSizePartitioner()((rows, 16384), "float32") == [1, 1]


@pytest.mark.parametrize(("shape", "shards"), [((1024, 1024), 10), ((1024, 64), 1), ((1025, 64), 2)])
def test_b027_ten_shards_at_most(shape: tuple[int, int], shards: int) -> None:
    assert MinSizePartitioner(KIB_256, max_shards=10)(shape, "float32") == [shards, 1]


@pytest.mark.parametrize(("dtype", "shards"), [("float32", 16), ("float64", 16), ("float16", 8), ("string", 16)])
def test_b027_size_depends_on_the_dtype(dtype: str, shards: int) -> None:
    assert MinSizePartitioner(KIB_256, max_shards=16)((1024, 1024), dtype) == [shards, 1]


def test_b028_min_size_on_small_shapes() -> None:
    assert MinSizePartitioner(4, 2)([6, 1], "float32") == [2, 1]
    assert MinSizePartitioner(4, 10)([6, 1], "float32") == [6, 1]
    assert MinSizePartitioner(5, 10)([6, 1], "float32") == [5, 1]
    assert MinSizePartitioner(4, 10)([6, 4], "float32", axis=1) == [1, 4]
    assert MinSizePartitioner(4, 10)([0, 3], "float32") == [1, 1]


def test_b028_axis_that_is_not_there_raises() -> None:
    with pytest.raises(ValueError, match="axis 2"):
        MinSizePartitioner(4, 10)([6, 4], "float32", axis=2)
    for partitioner in (MinSizePartitioner(4, 10), MaxSizePartitioner(4), FixedShardsPartitioner(2)):
        with pytest.raises(ValueError, match="scalar"):
            partitioner([], "float32")


def test_b030_max_size() -> None:
    assert MaxSizePartitioner(32)([6, 1], "string") == [3, 1]
    assert MaxSizePartitioner(16)([6, 4], "string", axis=1) == [1, 4]
    assert MaxSizePartitioner(32, max_shards=0)([6, 1], "string") == [3, 1]
    assert MaxSizePartitioner(32, max_shards=2)([6, 1], "string") == [2, 1]
    with pytest.raises(ValueError, match="max_shards"):
        MaxSizePartitioner(32, max_shards=-1)
    with pytest.raises(ValueError, match="max_shard_bytes"):
        MaxSizePartitioner(0)


def test_b031_fixed_number() -> None:
    assert FixedShardsPartitioner(2)([10, 3], "float32") == [2, 1]
    assert FixedShardsPartitioner(2)([1, 3], "float32") == [1, 1]
    assert FixedShardsPartitioner(2)([13], "float32") == [2]
    assert FixedShardsPartitioner(5)([13, 2], "float32") == [5, 1]
    assert FixedShardsPartitioner(4)([3], "float32") == [3]
    assert FixedShardsPartitioner(4)([10, 3], "float32", axis=1) == [1, 3]


@pytest.mark.parametrize("num_shards", [0, -1])
def test_b032_fixed_number_below_one_raises_at_construction(num_shards: int) -> None:
    with pytest.raises(ValueError, match="num_shards"):
        FixedShardsPartitioner(num_shards)


@pytest.mark.parametrize("answer", [None, [], [0, 1, 1], [2, 2, 1]])
def test_b033_unusable_answer_of_a_partitioner_raises(answer: Any) -> None:
    with pytest.raises(ValueError, match="variable_partitioner"):
        checked_partitions(answer, (2, 3, 4))


@pytest.mark.parametrize("answer", [None, [], [0, 1], [2, 2], [1, 1, 1], [1.5, 1]])
def test_b033_a_strategy_refuses_an_unusable_answer_and_its_scope_goes_on(answer: Any) -> None:
    answers = [answer, [2, 1]]
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), lambda shape, dtype: answers.pop(0))
    with strategy.scope():
        with pytest.raises((ValueError, TypeError), match="variable_partitioner"):
            sd.Variable(np.zeros((4, 2)))
        assert [shard.device for shard in sd.Variable(np.zeros((4, 2))).variables] == ["ps:0", "ps:1"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("answer", "shards"), [([5, 1, 1], 2), ([2, 1, 1], 2), ([1, 1, 1], 1)])
def test_b033_shards_are_as_many_as_the_strategy_makes(answer: list[int], shards: int) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 3}), lambda shape, dtype: answer)
    with strategy.scope():
        variable = sd.Variable(np.arange(24.0).reshape(2, 3, 4))
    assert isinstance(variable, sd.ShardedVariable) == (shards > 1)
    assert len(strategy.placements()) == shards and variable.numpy().tolist() == np.arange(24.0).reshape(2, 3, 4).tolist()


def test_b033_usable_answers() -> None:
    assert checked_partitions([2, 1, 1], (2, 3, 4)) == 2
    assert checked_partitions([5, 1, 1], (2, 3, 4)) == 2
    assert checked_partitions([1, 1, 1], (2, 3, 4)) == 1


@pytest.mark.parametrize(
    ("rows", "shards", "sizes"),
    [
        (13, 5, [3, 3, 3, 2, 2]),
        (10, 4, [3, 3, 2, 2]),
        (8, 3, [3, 3, 2]),
        (7, 3, [3, 2, 2]),
        (7, 2, [4, 3]),
        (3, 4, [1, 1, 1]),
    ],
)
def test_b034_rows_are_dealt_by_div(rows: int, shards: int, sizes: list[int]) -> None:
    assert [end - first for first, end in row_ranges(rows, shards)] == sizes


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("rows", "shards", "sizes"), [(13, 5, [3, 3, 3, 2, 2]), (7, 3, [3, 2, 2]), (3, 4, [1, 1, 1])])
def test_b034_the_shards_of_a_strategy_have_these_rows(rows: int, shards: int, sizes: list[int], axis: int) -> None:
    strategy = sd.ParameterServerStrategy(
        sd.Cluster({"worker": 1, "ps": 2}), lambda shape, dtype: [shards, 1] if axis == 0 else [1, shards]
    )
    value = np.arange(2.0 * rows, dtype=np.float32).reshape((rows, 2) if axis == 0 else (2, rows))
    with strategy.scope():
        table = sd.Variable(value)
    assert isinstance(table, sd.ShardedVariable)
    assert [shard.shape[axis] for shard in table.variables] == sizes
    expected = np.split(value, np.cumsum(sizes)[:-1], axis=axis)
    assert all((shard.numpy() == part).all() for shard, part in zip(table.variables, expected, strict=True))
    assert [shard.device for shard in table.variables] == [f"ps:{number % 2}" for number in range(len(sizes))]
