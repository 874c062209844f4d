"""The row numbers of a step: each row once, which one each id means, and how many rows are those of a shard."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from simdist.errors import InvalidArgumentError
from simdist.program.kernels import kernel_of
from simdist.program.row_numbers import HostIds, RowNumbers
from simdist.program.values import Aval


def numbers(ids: list[int], num_rows: int = 10) -> RowNumbers:
    kernel = kernel_of("ids", lambda array: [array], [Aval((len(ids),), "int32")])
    return HostIds("table", num_rows, kernel).numbers([np.array(ids, np.int32)])


def test_each_row_is_asked_for_once_and_positions_say_which() -> None:
    found = numbers([7, 2, 7, 9])
    assert found.unique.tolist() == [2, 7, 9, 10]
    assert found.count == 3
    assert found.unique[found.positions].tolist() == [7, 2, 7, 9]


def test_rows_of_shards_are_counted_one_by_one_or_all_at_once() -> None:
    shards = [(0, 3), (3, 3), (3, 8), (8, 10)]
    ids = np.asarray(jax.random.randint(jax.random.key(0), (40,), 0, 10)).tolist()[:6]
    expected = [len({number for number in ids if first <= number < stop}) for first, stop in shards]
    assert numbers(ids).counts_in(shards) == expected
    assert [numbers(ids).count_in(*shard) for shard in shards] == expected
    found = numbers(ids)
    found.counts_in(shards)
    assert [found.count_in(*shard) for shard in [*shards, (0, 10)]] == [*expected, len(set(ids))]


def test_what_fills_up_is_no_row_of_the_last_shard() -> None:
    assert numbers([9, 9, 9]).counts_in([(0, 9), (9, 10)]) == [0, 1]


@pytest.mark.parametrize("wrong", [-1, 10])
def test_an_id_that_is_no_row_is_refused(wrong: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"asks for row {wrong}; the table has 10 rows"):
        numbers([3, wrong])


# -- rows of several replicas ------------------------------------------------------------------------------------------


def together(*ids: list[int], num_rows: int = 10) -> tuple[RowNumbers, list[RowNumbers]]:
    each = [numbers(own, num_rows) for own in ids]
    kernel = kernel_of("ids", lambda array: [array], [Aval((1,), "int32")])
    return HostIds("table", num_rows, kernel).together(each), each


def test_replicas_ask_for_each_row_once_and_know_its_position() -> None:
    joint, each = together([7, 2, 7], [9, 2], [])
    assert joint.unique.tolist() == [2, 7, 9, 10, 10]
    assert joint.count == 3
    assert [own.joint_positions.tolist() for own in each] == [[0, 1, 5], [0, 2], []]
    for own in each:
        assert own.joint is joint
        np.testing.assert_array_equal(joint.unique[own.joint_positions[: own.count]], own.unique[: own.count])


def test_joint_rows_are_no_more_than_those_of_the_table() -> None:
    joint, (first, second) = together([0, 1, 2], [1, 2, 3], num_rows=4)
    assert joint.unique.tolist() == [0, 1, 2, 3]
    assert (first.joint_positions.tolist(), second.joint_positions.tolist()) == ([0, 1, 2], [1, 2, 3])


def test_no_ids_are_no_rows() -> None:
    found = numbers([])
    assert (found.count, found.unique.tolist(), found.positions.tolist()) == (0, [], [])
