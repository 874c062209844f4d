"""Groups of elements with equal keys, and batches of similar lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simdist.data import ArraySpec, Dataset, grouped
from simdist.errors import InvalidArgumentError


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def batches(_: object, group: Dataset) -> Dataset:
    return group.batch(3)


def test_no_element_is_read_before_a_group_needs_it() -> None:
    read: list[int] = []
    source = Dataset.from_iterable(lambda: (read.append(n) or n for n in range(20)))
    groups = iter(source.group_by_window(lambda n: n % 2, batches, window_size=3))
    assert next(groups).tolist() == [0, 2, 4] and read == [0, 1, 2, 3, 4]


def test_elements_keep_their_structure_and_each_is_in_one_group() -> None:
    source = Dataset.range(20).map(lambda n: {"n": n, "key": n % 3})
    groups = list(source.group_by_window(lambda row: row["key"], batches, window_size=3))
    assert all(len(set(group["key"].tolist())) == 1 for group in groups)
    assert sorted(n for group in groups for n in group["n"].tolist()) == [*range(20)]


def test_a_pass_goes_on_where_its_position_says() -> None:
    def make() -> Dataset:
        return Dataset.range(12).shuffle(12, seed=3).group_by_window(lambda n: n % 2, batches, window_size=4)

    everything = plain(make())
    before, after = iter(make()), iter(make())
    for _ in range(3):
        next(before)
    after.load_state_dict(before.state_dict())
    assert plain(after) == everything[3:]


def test_the_shape_is_that_of_what_the_function_makes() -> None:
    assert Dataset.range(6).group_by_window(lambda n: n % 2, batches, window_size=3).element_spec == ArraySpec((None,), "int32")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "window_size=None and window_size_func=None; expected one of the two"),
        ({"window_size": 1, "window_size_func": int}, "expected one of the two"),
        ({"window_size": 0}, "window_size is 0"),
    ],
)
def test_a_size_is_given_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Dataset.range(3).group_by_window(lambda n: n, batches, **options)


@pytest.mark.parametrize("key", [1.5, np.zeros(2, np.int32), (1, 2)])
def test_a_key_is_one_integer(key: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must return one integer"):
        next(iter(Dataset.range(3).group_by_window(lambda _: key, batches, window_size=2)))


def test_a_size_that_a_function_says_is_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="the size of a window is 0"):
        next(iter(Dataset.range(3).group_by_window(lambda n: n, batches, window_size_func=lambda _: 0)))


def lines(lengths: list[int]) -> Dataset:
    return Dataset.from_iterable([np.full(length, length, np.int32) for length in lengths])


def test_each_batch_is_as_long_as_its_longest_element() -> None:
    found = [batch.shape for batch in lines([1, 9, 2, 7, 8, 1, 2]).bucket_by_sequence_length(len, [3], [4, 2])]
    assert found == [(2, 9), (4, 2), (1, 8)]


def test_last_batches_may_be_left_out_and_elements_left_as_they_are() -> None:
    sized = lines([2, 2, 4, 2])
    assert [b.shape for b in sized.bucket_by_sequence_length(len, [3], [2, 2], drop_remainder=True)] == [(2, 2)]
    assert [b.shape for b in sized.bucket_by_sequence_length(len, [3], [2, 2], no_padding=True)] == [(2, 2), (1, 2), (1, 4)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rows: rows.bucket_by_sequence_length(len, [3, 3], [1, 1, 1]), "expected rising boundaries"),
        (lambda rows: rows.bucket_by_sequence_length(len, [3], [1]), "1 batch sizes"),
        (lambda rows: rows.bucket_by_sequence_length(len, [3], [1, 0]), "a bucket's batch size is 0"),
        (lambda rows: rows.bucket_by_sequence_length(len, [3], [1, 1], pad_to_bucket_boundary=True), "expected padded_shapes"),
    ],
)
def test_buckets_that_make_no_sense_are_refused(make: Callable[[Dataset], Dataset], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make(lines([1, 2]))


def test_an_element_beyond_the_last_boundary_cannot_be_padded_to_it() -> None:
    with pytest.raises(InvalidArgumentError, match="as long as the last boundary, 3, or longer"):
        list(lines([3]).bucket_by_sequence_length(len, [3], [1, 1], padded_shapes=(None,), pad_to_bucket_boundary=True))


def test_groups_that_are_left_at_the_end_are_ordered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[int] = []

    def counted(order: Callable[..., Any]) -> Callable[..., Any]:
        return lambda keys, **options: ordered.append(len(keys)) or order(keys, **options)

    for order in (min, sorted):
        monkeypatch.setattr(grouped, order.__name__, counted(order), raising=False)
    dataset = Dataset.range(100).map(lambda x: 99 - x).group_by_window(lambda x: x, batches, window_size=2)
    assert plain(dataset) == [[number] for number in range(100)]
    assert sum(ordered) <= 200
