"""Datasets that a function makes of elements: how far they are read, what is refused, and where a pass goes on."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from simdist.data import ArraySpec, Dataset, streams
from simdist.errors import InvalidArgumentError


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def test_no_element_is_read_before_it_is_needed() -> None:
    called: list[int] = []
    read: list[int] = []

    def numbers(n: Any) -> Dataset:
        called.append(int(n))
        return Dataset.from_iterable(lambda: (read.append(10 * int(n) + i) or i for i in range(3)))

    elements = iter(Dataset.range(5).flat_map(numbers))
    assert not called
    for _ in range(4):
        next(elements)
    assert called == [0, 1] and read == [0, 1, 2, 10]


def test_rows_of_an_inner_table_stay_rows() -> None:
    inner = Dataset.from_tensor_slices(np.arange(12).reshape(4, 3))
    batch = iter(Dataset.range(2).flat_map(lambda _: inner.batch(2))).next_batch()
    assert batch.table is inner.table and batch.rows is not None and batch.rows.tolist() == [0, 1]


@pytest.mark.parametrize("cycle_length", [1, 2, 3])
def test_a_pass_goes_on_where_its_position_says(cycle_length: int) -> None:
    def make() -> Dataset:
        return Dataset.range(6).shuffle(6, seed=1).interleave(lambda n: Dataset.range(int(n)).shuffle(9, seed=2), cycle_length, 2)

    everything = plain(make())
    for taken in range(len(everything)):
        before = iter(make())
        for _ in range(taken):
            next(before)
        after = iter(make())
        after.load_state_dict(before.state_dict())
        assert plain(after) == everything[taken:]


def test_a_shuffle_that_draws_its_seed_is_refused_inside_and_welcome_outside() -> None:
    inside = Dataset.range(3).flat_map(lambda n: Dataset.range(int(n)).shuffle(5))
    with pytest.raises(InvalidArgumentError, match=r"shuffles without a seed.*expected shuffle\(\.\.\., seed=\.\.\.\)"):
        next(iter(inside))
    assert sorted(plain(Dataset.range(3).flat_map(lambda n: Dataset.range(int(n))).shuffle(5))) == [0, 0, 1]


def test_what_is_no_dataset_is_refused() -> None:
    with pytest.raises(TypeError, match=r"returned ndarray to flat_map; expected a dataset; use map"):
        next(iter(Dataset.range(3).flat_map(lambda n: np.zeros(3))))
    with pytest.raises(TypeError, match="expected a function"):
        Dataset.range(3).interleave(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("option", ["cycle_length", "block_length"])
def test_numbers_below_one_are_refused(option: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{option} is 0"):
        Dataset.range(3).interleave(Dataset.from_tensors, **{option: 0})


def test_datasets_of_other_elements_are_refused_when_they_are_met() -> None:
    mixed = Dataset.range(2).flat_map(lambda n: Dataset.range(2) if n == 0 else Dataset.from_tensors(1.5))
    elements = iter(mixed)
    assert [int(next(elements)) for _ in range(2)] == [0, 1]
    with pytest.raises(InvalidArgumentError, match=r"of \['float32'\], and .* of \['int32'\] before"):
        next(elements)


def test_an_element_that_cannot_be_made_is_passed_over_and_the_others_come() -> None:
    def made_of(n: Any) -> Dataset:
        if n == 1:
            raise ValueError("not this one")
        return Dataset.range(int(n) + 1)

    elements, found, errors = iter(Dataset.range(3).flat_map(made_of)), list[int](), 0
    while True:
        try:
            found.append(int(next(elements)))
        except ValueError:
            errors += 1
        except StopIteration:
            break
    assert found == [0, 0, 1, 2] and errors == 1


def test_the_shapes_are_those_of_what_the_function_makes() -> None:
    dataset = Dataset.range(1, 4).flat_map(lambda n: Dataset.from_tensors({"x": np.zeros((int(n), 2), np.float32)}))
    assert dataset.element_spec == {"x": ArraySpec((None, 2), "float32")}
    assert Dataset.range(2, 0).flat_map(lambda n: Dataset.range(3)).element_spec == ArraySpec((), "int32")


def test_looking_at_shapes_leaves_nothing_behind() -> None:
    called: list[int] = []

    def counted(n: Any) -> Dataset:
        called.append(int(n))
        return Dataset.range(2)

    dataset = Dataset.range(3).flat_map(counted)
    assert dataset.element_spec == ArraySpec((), "int32") and not called
    assert len(plain(dataset)) == 6 and called == [0, 1, 2]


def test_inner_shuffles_are_not_kept_when_they_are_over() -> None:
    opened: list[weakref.ref[Any]] = []

    def shuffled(n: Any) -> Dataset:
        dataset = Dataset.range(3).shuffle(3, seed=int(n))
        opened.append(weakref.ref(dataset.node))
        return dataset

    elements = iter(Dataset.range(20).flat_map(shuffled))
    for _ in range(40):
        next(elements)
    assert sum(node() is not None for node in opened) <= 2


def test_a_dataset_that_the_function_has_from_outside_is_shuffled_anew_each_time() -> None:
    shuffled = Dataset.range(9).shuffle(9, seed=1)
    numbers = plain(Dataset.range(2).flat_map(lambda _: shuffled))
    assert sorted(numbers[:9]) == sorted(numbers[9:]) == [*range(9)] and numbers[:9] != numbers[9:]


@pytest.mark.parametrize("cycle_length", [1, 3])
def test_datasets_without_elements_for_ever_are_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch, cycle_length: int) -> None:
    monkeypatch.setattr(streams, "FUTILE_ROWS", 100)
    numbers = iter(Dataset.counter().interleave(lambda n: Dataset.range(max(0, 2 - int(n))), cycle_length))
    assert sorted(int(next(numbers)) for _ in range(3)) == [0, 0, 1]
    with pytest.raises(InvalidArgumentError, match="100 datasets one after another had no elements"):
        next(numbers)


def test_a_hundred_members_may_be_open_at_once() -> None:
    dataset = Dataset.range(100).interleave(lambda n: Dataset.from_tensors(n).repeat(2), cycle_length=100)
    assert plain(dataset) == [*range(100)] * 2
