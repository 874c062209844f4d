"""Ranges of shards: parts of an array that join to the whole again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.variables.shard_range import ShardRange, equal_ranges, ranges_of_sizes


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 6), st.data())
def test_the_parts_of_an_array_join_to_the_whole(shape: list[int], count: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    whole = np.arange(np.prod(shape)).reshape(shape)
    ranges = equal_ranges(axis, shape[axis], count)
    np.testing.assert_array_equal(np.concatenate([part.of(whole) for part in ranges], axis=axis), whole)
    for part in ranges:
        piece = part.of(whole)
        assert (part.shape_of(shape), part.whole_shape(piece.shape)) == (piece.shape, tuple(shape))
        assert whole[part.offset(len(shape))] == piece[(0,) * len(shape)]


def test_ranges_of_given_sizes_follow_each_other() -> None:
    ranges = ranges_of_sizes(1, [3, 1, 2])
    assert [(part.start, part.stop, part.number, part.count, part.size) for part in ranges] == [
        (0, 3, 0, 3, 6),
        (3, 4, 1, 3, 6),
        (4, 6, 2, 3, 6),
    ]


@pytest.mark.parametrize(("axis", "text"), [(0, "[1:3]"), (2, "[1:3] of axis 2")])
def test_the_text_names_another_axis_than_the_first(axis: int, text: str) -> None:
    assert str(ShardRange(axis, 1, 3, 8)) == text
