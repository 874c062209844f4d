"""States that are handed on from element to element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.data import ArraySpec, Dataset
from simdist.errors import InvalidArgumentError


def running_mean(state: Any, x: Any) -> Any:
    count, total = state
    return (count + 1, total + x), {"mean": (total + x) / (count + 1)}


def test_scan_gives_one_element_for_each_with_a_nested_state() -> None:
    values = np.array([3, 1, 8, 4], np.float32)
    dataset = Dataset.from_tensor_slices(values).scan((np.int32(0), np.float32(0)), running_mean)
    means = [float(element["mean"]) for element in dataset]
    assert np.allclose(means, np.cumsum(values) / np.arange(1, 5))
    assert len(dataset) == 4 and dataset.element_spec == {"mean": ArraySpec((), "float32")}


def test_each_pass_begins_with_the_initial_state_and_a_position_finds_it_again() -> None:
    dataset = Dataset.range(6).scan(0, lambda state, x: (state + x, state))
    everything = [int(x) for x in dataset]
    assert everything == [int(x) for x in dataset] == [0, 0, 1, 3, 6, 10]
    before, after = iter(dataset), iter(dataset)
    next(before), next(before)
    after.load_state_dict(before.state_dict())
    assert [int(x) for x in after] == everything[2:]


def test_a_function_that_raises_leaves_the_state_as_it_was() -> None:
    def add(state: Any, x: Any) -> Any:
        if x == 2:
            raise ValueError("not two")
        return state + x, state + x

    assert [int(x) for x in Dataset.range(5).scan(0, add).ignore_errors()] == [0, 1, 4, 8]


@pytest.mark.parametrize("state", [1.5, (1, 2), {"a": 1}])
def test_a_state_keeps_its_structure_and_dtypes(state: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="expected the same structure and dtypes"):
        next(iter(Dataset.range(3).scan(0, lambda _, x: (state, x))))


@pytest.mark.parametrize("answer", [1, (1,), (1, 2, 3), [1, 2]])
def test_scan_needs_a_pair(answer: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"expected a pair \(new state, output element\)"):
        next(iter(Dataset.range(3).scan(0, lambda _, x: answer)))


def test_outputs_of_scan_have_one_structure() -> None:
    elements = iter(Dataset.range(3).scan(0, lambda state, x: (state, x if x == 0 else (x, x))))
    next(elements)
    with pytest.raises(InvalidArgumentError, match="expected one structure"):
        next(elements)


def test_reduce_takes_numbers_and_refuses_a_dataset_without_an_end() -> None:
    largest = Dataset.from_tensor_slices({"x": np.array([3, 9, 4], np.int32)}).reduce(0, lambda state, row: max(state, row["x"]))
    assert isinstance(largest, np.int32) and largest == 9
    with pytest.raises(InvalidArgumentError, match=r"has no end; expected a finite dataset; add \.take\(n\)"):
        Dataset.range(3).repeat().reduce(0, lambda state, x: state)
    with pytest.raises(TypeError, match="expected a function of a state and an element"):
        Dataset.range(3).reduce(0, 1)  # pyright: ignore[reportArgumentType]


def test_the_only_element() -> None:
    assert Dataset.range(4).batch(4).get_single_element().tolist() == [0, 1, 2, 3]
    for dataset, found in ((Dataset.range(0), "no element"), (Dataset.range(2), "more than one element")):
        with pytest.raises(InvalidArgumentError, match=f"which has {found}"):
            dataset.get_single_element()
