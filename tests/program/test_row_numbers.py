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
