"""Orders of tf.data (TensorFlow 2.21) for steps of several datasets: what it gave, number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset

INTERLEAVED = {
    (1, 1): [1, 2, 2, 3, 4, 5, 3, 4, 5, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11],
    (1, 3): [1, 2, 2, 3, 4, 5, 3, 4, 5, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11],
    (2, 1): [1, 2, 2, 3, 4, 3, 5, 4, 5, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10, 11],
    (2, 2): [1, 2, 2, 3, 4, 5, 3, 4, 5, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10, 11],
    (2, 3): [1, 2, 2, 3, 4, 3, 4, 5, 5, 4, 5, 6, 5, 6, 7, 7, 8, 8, 9, 10, 11],
    (3, 1): [1, 2, 3, 2, 3, 4, 4, 5, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10, 11],
    (3, 2): [1, 2, 2, 3, 3, 4, 4, 5, 5, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10, 11],
    (3, 3): [1, 2, 2, 3, 4, 3, 4, 5, 4, 5, 6, 5, 7, 8, 5, 6, 7, 8, 9, 10, 11],
    (5, 1): [1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 4, 5, 6, 7, 5, 7, 8, 8, 9, 10, 11],
    (5, 2): [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 4, 5, 5, 6, 7, 7, 8, 8, 9, 10, 11],
    (5, 3): [1, 2, 2, 3, 4, 3, 4, 5, 4, 5, 6, 5, 6, 7, 5, 7, 8, 8, 9, 10, 11],
}
"""Of six datasets of 0 to 7 elements, by (cycle_length, block_length)."""

WINDOWS: list[tuple[int, dict[str, Any], list[list[int]]]] = [
    (7, {"size": 3}, [[0, 1, 2], [3, 4, 5], [6]]),
    (7, {"size": 3, "drop_remainder": True}, [[0, 1, 2], [3, 4, 5]]),
    (7, {"size": 3, "shift": 1}, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6], [6]]),
    (7, {"size": 3, "shift": 1, "drop_remainder": True}, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]),
    (7, {"size": 2, "shift": 3}, [[0, 1], [3, 4], [6]]),
    (8, {"size": 3, "shift": 2, "stride": 2}, [[0, 2, 4], [2, 4, 6], [4, 6], [6]]),
    (8, {"size": 3, "shift": 2, "stride": 2, "drop_remainder": True}, [[0, 2, 4], [2, 4, 6]]),
    (5, {"size": 2, "shift": 4, "stride": 3}, [[0, 3], [4]]),
    (9, {"size": 2, "shift": 5}, [[0, 1], [5, 6]]),
    (3, {"size": 5}, [[0, 1, 2]]),
    (3, {"size": 5, "drop_remainder": True}, []),
    (10, {"size": 2, "stride": 4, "shift": 1}, [[0, 4], [1, 5], [2, 6], [3, 7], [4, 8], [5, 9], [6], [7], [8], [9]]),
]

SEQUENCES = [[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16, 19, 20], [21, 22]]


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def sequences() -> Dataset:
    return Dataset.from_iterable([np.array(row, np.int32) for row in SEQUENCES])


@pytest.mark.parametrize(("cycle_length", "block_length"), INTERLEAVED)
def test_interleave_has_the_order_of_tf_data(cycle_length: int, block_length: int) -> None:
    dataset = Dataset.range(6).interleave(lambda n: Dataset.range(int(n), int(2 * n + n % 3)), cycle_length, block_length)
    assert plain(dataset) == INTERLEAVED[cycle_length, block_length]


def test_interleave_gives_the_example_of_the_documentation() -> None:
    dataset = Dataset.range(1, 6).interleave(lambda n: Dataset.from_tensors(n).repeat(6), cycle_length=2, block_length=4)
    assert plain(dataset) == [*[1] * 4, *[2] * 4, 1, 1, 2, 2, *[3] * 4, *[4] * 4, 3, 3, 4, 4, *[5] * 6]


@pytest.mark.parametrize(("rows", "options", "expected"), WINDOWS)
def test_windows_have_the_elements_of_tf_data(rows: int, options: dict[str, Any], expected: list[list[int]]) -> None:
    for source in (Dataset.range(rows), Dataset.from_iterable(range(rows)), Dataset.range(rows).map(lambda x: x, pure=False)):
        assert [plain(window) for window in source.window(**options)] == expected
        assert Dataset.range(rows).window(**options).cardinality() == len(expected)


def test_groups_come_as_in_tf_data() -> None:
    evens = Dataset.range(10).group_by_window(lambda x: x % 2, lambda _, group: group.batch(5), window_size=5)
    assert plain(evens) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    of_key = Dataset.range(11).group_by_window(lambda x: x % 3, lambda _, group: group.batch(2), window_size_func=lambda key: 2 + int(key))
    assert plain(of_key) == [[0, 3], [1, 4], [7], [6, 9], [10], [2, 5], [8]]


@pytest.mark.parametrize("filling", [0, -1])
def test_buckets_are_those_of_tf_data(filling: int) -> None:
    batches = sequences().bucket_by_sequence_length(len, [3, 5], [2, 2, 2], padding_values=np.int32(filling))
    first, second, third = (
        [[1, 2, 3, 4], [5, 6, 7, filling]],
        [[7, 8, 9, 10, 11, filling], [13, 14, 15, 16, 19, 20]],
        [[0, filling], [21, 22]],
    )
    assert plain(batches) == [first, second, third]


def test_buckets_are_padded_to_their_boundaries_as_in_tf_data() -> None:
    batches = sequences().bucket_by_sequence_length(len, [3, 5, 8], [2, 2, 2, 2], padded_shapes=(None,), pad_to_bucket_boundary=True)
    assert plain(batches) == [
        [[1, 2, 3, 4], [5, 6, 7, 0]],
        [[7, 8, 9, 10, 11, 0, 0], [13, 14, 15, 16, 19, 20, 0]],
        [[0, 0], [21, 22]],
    ]


@pytest.mark.parametrize(
    ("choices", "stops", "expected"),
    [
        ([0, 1] * 4, True, [0, 10, 1, 11]),
        ([0, 1] * 4, False, [0, 10, 1, 11, 12, 13]),
        ([0, 0, 0, 1, 1, 0, 1], True, [0, 1]),
        ([0, 0, 0, 1, 1, 0, 1], False, [0, 1, 10, 11, 12]),
    ],
)
def test_choices_that_find_nothing_end_the_dataset_or_are_passed_over(choices: list[int], stops: bool, expected: list[int]) -> None:
    members = [Dataset.range(2), Dataset.range(10, 15)]
    chosen = Dataset.choose_from_datasets(members, Dataset.from_tensor_slices(choices), stop_on_empty_dataset=stops)
    assert plain(chosen) == expected


def test_scan_and_reduce_give_what_tf_data_gives() -> None:
    scanned = Dataset.range(10).scan(0, lambda state, x: (state + x, state * x))
    assert plain(scanned) == [0, 0, 2, 9, 24, 50, 90, 147, 224, 324]
    assert Dataset.range(0).reduce(3, lambda state, x: state + x) == 3
    pairs = Dataset.from_tensor_slices((np.arange(4), np.ones(4, np.float32)))
    assert [float(part) for part in pairs.reduce((0, np.float32(0)), lambda state, x: (state[0] + x[0], state[1] + x[1]))] == [6, 4]


def test_small_steps_give_what_tf_data_gives() -> None:
    assert plain(Dataset.from_tensor_slices([1, 2, 7, 3, 9]).take_while(lambda x: x < 5)) == [1, 2]
    assert plain(Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique()) == [1, 37, 2]
    assert plain(Dataset.from_tensor_slices([[1, 2], [1, 2], [1, 3]]).unique()) == [[1, 2], [1, 3]]
    assert plain(Dataset.range(7).batch(4).rebatch(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    assert plain(Dataset.counter(start=2, step=3).take(4)) == [2, 5, 8, 11]


def test_cardinalities_are_those_of_tf_data_or_say_more() -> None:
    rows = Dataset.range(5)
    assert rows.flat_map(lambda _: rows).cardinality() == rows.take_while(bool).cardinality() == rows.unique().cardinality() == -2
    assert rows.scan(0, lambda state, x: (state, x)).cardinality() == 5
    assert Dataset.counter().cardinality() == -1
    assert Dataset.sample_from_datasets([rows, rows]).cardinality() == -2
    assert Dataset.sample_from_datasets([rows.repeat(), rows]).cardinality() == -1
    assert Dataset.sample_from_datasets([rows.repeat(), rows], stop_on_empty_dataset=True).cardinality() == -2
