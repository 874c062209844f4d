"""Packing: the rules of TensorFlow's packs, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.collectives import group_by_size, pack_gradients, split_in_packs
from simdist.errors import InvalidArgumentError


def sizes(packs: list[list[int]], sizes_bytes: list[int]) -> list[list[int]]:
    return [[sizes_bytes[position] for position in pack] for pack in packs]


@pytest.mark.parametrize(
    ("sizes_bytes", "limit", "expected"),
    [
        ([128, 32, 800, 4], 200, [[128, 32, 800], [4]]),
        ([4, 4, 4], 1, [[4], [4], [4]]),
        ([4, 4, 4], 4, [[4, 4], [4]]),
        ([4, 4, 4], 8, [[4, 4, 4]]),
        ([4, 4, 4, 4], 8, [[4, 4, 4], [4]]),
        ([4, 4, 4], 0, [[4, 4, 4]]),
        ([], 8, []),
        ([], 0, []),
    ],
)
def test_new_pack_begins_after_one_that_exceeds_the_limit(sizes_bytes: list[int], limit: int, expected: list[list[int]]) -> None:
    assert sizes(group_by_size(sizes_bytes, limit), sizes_bytes) == expected


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(0, 2000))
@examples()
def test_packs_keep_the_order_and_only_the_last_is_not_above_the_limit(sizes_bytes: list[int], limit: int) -> None:
    packs = group_by_size(sizes_bytes, limit)
    assert [position for pack in packs for position in pack] == list(range(len(sizes_bytes)))
    for pack in packs[:-1]:
        assert sum(sizes_bytes[position] for position in pack) > limit
        assert sum(sizes_bytes[position] for position in pack[:-1]) <= limit


def test_gradients_are_packed_from_the_last_layer_on_and_by_dtype() -> None:
    packs = pack_gradients([100, 10, 100, 10], ["f4", "f4", "f2", "f4"], bytes_per_pack=15)
    assert packs == [[3, 1], [0], [2]]
    assert pack_gradients([100, 10, 100, 10], ["f4"] * 4, bytes_per_pack=15) == [[3, 2], [1, 0]]
    assert pack_gradients([], []) == []


def test_last_part_takes_the_remainder() -> None:
    assert split_in_packs(10, 3) == [3, 3, 4]
    assert split_in_packs(2, 3) == [0, 0, 2]
    assert split_in_packs(7, 1) == [7]
    assert split_in_packs(0, 2) == [0, 0]


def test_impossible_packs_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="bytes_per_pack is -1; expected at least 0"):
        group_by_size([1], -1)
    with pytest.raises(ValueError, match="num_packs is -1; expected at least 1"):
        split_in_packs(10, -1)
    with pytest.raises(InvalidArgumentError, match="got 1 for 2"):
        pack_gradients([1, 2], ["f4"])
