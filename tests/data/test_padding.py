"""Padded batches against numpy's pad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError

quick = examples(60)


def ragged(lengths: list[int]) -> Dataset:
    return Dataset.from_iterable([np.arange(1, n + 1) for n in lengths])


@quick
@given(st.lists(st.integers(0, 6), max_size=9), st.integers(1, 4), st.booleans(), st.sampled_from([None, 7]))
def test_each_batch_is_as_wide_as_its_longest_element_or_as_given(lengths: list[int], size: int, drop: bool, width: int | None):
    found = [batch.tolist() for batch in ragged(lengths).padded_batch(size, padded_shapes=(width,), drop_remainder=drop)]
    expected = []
    for at in range(0, len(lengths), size):
        group = lengths[at : at + size]
        wide = width or max(group)
        if len(group) == size or not drop:
            expected.append([np.pad(np.arange(1, n + 1), (0, wide - n)).tolist() for n in group])
    assert found == expected


def test_rows_of_a_ragged_map_are_padded_and_restored():
    def dataset() -> Dataset:
        return Dataset.range(1, 6).shuffle(5, seed=3).map(lambda n: np.ones(n)).padded_batch(2)

    iterator = iter(dataset())
    next(iterator)
    state, rest = iterator.state_dict(), [batch.tolist() for batch in iterator]
    again = iter(dataset())
    again.load_state_dict(state)
    assert [batch.tolist() for batch in again] == rest


def test_components_have_their_own_shapes_and_values():
    pairs = Dataset.from_iterable([([1], "a"), ([2, 3], "b")]).map(lambda x, name: {"x": x, "name": np.array([str(name)] * len(x))})
    batch = next(iter(pairs.padded_batch(2, {"x": [3], "name": [None]}, {"x": -1, "name": "?"})))
    assert batch["x"].tolist() == [[1, -1, -1], [2, 3, -1]]
    assert batch["name"].tolist() == [["a", "?"], ["b", "b"]]


def test_default_padding_is_zero_false_or_the_empty_string():
    elements = Dataset.from_iterable(
        [(np.ones(1), np.array([True]), np.array(["x"])), (np.ones(2), np.array([True] * 2), np.array(["y"] * 2))]
    )
    numbers, flags, words = next(iter(elements.padded_batch(2)))
    assert (
        numbers.tolist() == [[1, 0], [1, 1]]
        and flags.tolist() == [[True, False], [True, True]]
        and words.tolist() == [["x", ""], ["y", "y"]]
    )


def test_shapes_that_vary_are_none_in_the_spec():
    assert ragged([1, 2]).padded_batch(2).element_spec.shape == (None, None)
    assert ragged([1, 2]).padded_batch(2, (5,), drop_remainder=True).element_spec.shape == (2, 5)
    assert Dataset.from_tensor_slices(np.ones((4, 3))).padded_batch(2).element_spec.shape == (None, 3)
    assert ragged([1, 2, 3]).padded_batch(2).static_batch_size == 2


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ((2,), "does not fit"),
        ((None, None), "number of axes"),
        ("ab", "a shape per component"),
        (5, "a shape per component"),
        ([-3], "lengths from 0"),
        ([True], "lengths from 0"),
    ],
)
def test_elements_that_do_not_fit_are_refused(shapes: Any, says: str):
    with pytest.raises(InvalidArgumentError, match=says):
        list(ragged([3]).padded_batch(1, shapes))


def test_padded_shapes_of_another_structure_are_refused():
    with pytest.raises(InvalidArgumentError, match="structure of the elements"):
        list(Dataset.from_iterable([{"a": [1]}]).padded_batch(1, {"b": (None,)}))


@pytest.mark.parametrize("any_length", [None, -1])
def test_lengths_that_are_left_open_are_those_of_the_longest(any_length: int | None):
    assert [rows.tolist() for rows in ragged([1, 2]).padded_batch(2, [any_length])] == [
        rows.tolist() for rows in ragged([1, 2]).padded_batch(2)
    ]
