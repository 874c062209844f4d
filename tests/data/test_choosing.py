"""Elements of one of several datasets, as numbers say or chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.data import ArraySpec, Dataset, streams
from simdist.errors import InvalidArgumentError


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def members(*sizes: int) -> list[Dataset]:
    return [Dataset.range(100 * number, 100 * number + size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize("choice", [2, -1])
def test_a_number_of_no_dataset_is_refused(choice: int) -> None:
    chosen = iter(Dataset.choose_from_datasets(members(2, 2), Dataset.from_tensor_slices([0, choice, 1])))
    assert next(chosen) == 0
    with pytest.raises(InvalidArgumentError, match="expected one integer from 0 to 1"):
        next(chosen)
    assert next(chosen) == 100


def test_datasets_that_do_not_belong_together_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="expected one dtype"):
        Dataset.sample_from_datasets([Dataset.range(2), Dataset.from_tensor_slices([1.5])])
    with pytest.raises(InvalidArgumentError, match="sample_from_datasets was given no datasets"):
        Dataset.sample_from_datasets([])
    with pytest.raises(TypeError, match="choose_from_datasets was given list; expected datasets"):
        Dataset.choose_from_datasets(members(2), [0])  # pyright: ignore[reportArgumentType]


def test_shapes_hold_for_all_members() -> None:
    short, long = Dataset.from_tensors(np.zeros(2)), Dataset.from_tensors(np.zeros(3))
    assert Dataset.sample_from_datasets([short, long]).element_spec == ArraySpec((None,), "float32")


def test_choices_of_the_empty_for_ever_are_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FUTILE_ROWS", 50)
    chosen = iter(Dataset.choose_from_datasets(members(1, 2), Dataset.range(1).repeat(), stop_on_empty_dataset=False))
    assert next(chosen) == 0
    with pytest.raises(InvalidArgumentError, match="may never choose another"):
        next(chosen)


def test_each_element_comes_once_and_in_its_order() -> None:
    mixed = plain(Dataset.sample_from_datasets(members(40, 20, 30), seed=5))
    for number, size in enumerate((40, 20, 30)):
        assert [x for x in mixed if x // 100 == number] == [100 * number + i for i in range(size)]
    assert mixed != sorted(mixed)


def test_the_choices_follow_from_the_seed_and_are_the_same_in_each_pass() -> None:
    mixed = Dataset.sample_from_datasets(members(30, 30), seed=5)
    assert plain(mixed) == plain(mixed) == plain(Dataset.sample_from_datasets(members(30, 30), seed=5))
    assert plain(mixed) != plain(Dataset.sample_from_datasets(members(30, 30), seed=6))


def test_weights_are_the_shares() -> None:
    endless = [member.repeat() for member in members(1, 1, 1)]
    mixed = Dataset.sample_from_datasets(endless, weights=[6, 3, 1], seed=1).take(10_000)
    shares = np.bincount([x // 100 for x in plain(mixed)], minlength=3) / 10_000
    assert np.allclose(shares, [0.6, 0.3, 0.1], atol=0.02)


def test_a_dataset_without_weight_is_never_chosen() -> None:
    assert plain(Dataset.sample_from_datasets(members(3, 3), weights=[1, 0])) == [0, 1, 2]


def test_the_first_empty_dataset_may_be_the_end() -> None:
    mixed = plain(Dataset.sample_from_datasets(members(3, 50), seed=2, stop_on_empty_dataset=True))
    assert 3 <= len(mixed) < 53 and [x for x in mixed if x < 100] == [0, 1, 2][: sum(x < 100 for x in mixed)]


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0], [1, float("nan")], [[1, 1]]])
def test_weights_that_are_none_are_refused(weights: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="expected a number from 0 for each, not all 0"):
        Dataset.sample_from_datasets(members(2, 2), weights=weights)


def test_other_choices_in_each_pass_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="rerandomize_each_iteration=True"):
        Dataset.sample_from_datasets(members(2, 2), rerandomize_each_iteration=True)


def test_a_pass_goes_on_where_its_position_says() -> None:
    def make() -> Dataset:
        return Dataset.sample_from_datasets([member.shuffle(9, seed=1) for member in members(9, 9)], seed=4)

    everything = plain(make())
    before, after = iter(make()), iter(make())
    for _ in range(7):
        next(before)
    after.load_state_dict(before.state_dict())
    assert plain(after) == everything[7:]


def test_a_choice_whose_element_stays_is_not_passed_over() -> None:
    tries: list[int] = []

    def at_the_third_try(x: Any) -> Any:
        tries.append(int(x))
        if tries.count(1) in (1, 2) and x == 1:
            raise ValueError("not yet")
        return x

    cached = Dataset.range(3).map(at_the_third_try, pure=False).cache()  # which has to try again before it goes on
    chosen = Dataset.choose_from_datasets([cached, *members(9)], Dataset.from_tensor_slices([0, 0, 1, 0]))
    elements = iter(chosen)
    assert next(elements) == 0
    for _ in range(2):
        with pytest.raises(ValueError, match="not yet"):
            next(elements)
    position = elements.state_dict()
    assert position["consumed"] == 1
    again = iter(chosen)
    again.load_state_dict(position)
    assert plain(again) == plain(elements) == [1, 0, 2]
