"""Numbers that enter a dataset stay what they are: they fit 32 bits, or an error names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError

LARGE = 2**40 + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.from_tensor_slices([LARGE, -(2**35), 5]),
        lambda: Dataset.from_tensor_slices({"id": np.array([LARGE])}),
        lambda: Dataset.from_tensors(LARGE),
        lambda: list(Dataset.range(3).map(lambda x: x + np.int64(LARGE))),
        lambda: list(Dataset.range(3).batch(2).map(lambda x: x + np.int64(LARGE))),
        lambda: list(Dataset.from_iterable([1, LARGE])),
        lambda: list(Dataset.range(LARGE, LARGE + 2)),
    ],
    ids=["slices", "dict", "tensors", "map", "map of batches", "iterable", "range"],
)
def test_integer_that_does_not_fit_is_named_with_the_remedy(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{LARGE}, which does not fit int32.*jax_enable_x64"):
        make()


@pytest.mark.parametrize("value", [1e39, -1e300])
def test_float_that_would_become_infinite_is_named(value: float) -> None:
    with pytest.raises(InvalidArgumentError, match="does not fit float32"):
        Dataset.from_tensor_slices([1.0, value])


def test_number_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="101 bits"):
        Dataset.from_tensor_slices([2**100])


def test_numbers_that_fit_stay_silent() -> None:
    values = [2**31 - 1, -(2**31)]
    assert [int(x) for x in Dataset.from_tensor_slices(values)] == values
    floats = [float("inf"), 3e38, float("nan")]
    np.testing.assert_array_equal(list(Dataset.from_tensor_slices(floats)), np.array(floats, np.float32))


@pytest.mark.parametrize("wrap", [lambda x: (x,), lambda x: {"a": x}], ids=["tuples", "dicts"])
def test_element_nested_thousands_deep_is_refused_and_does_no_harm(wrap: Callable[[Any], Any]) -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = wrap(deep)
    for _ in range(3):
        with pytest.raises(InvalidArgumentError, match="nested"):
            Dataset.from_tensors(deep)
        with pytest.raises(InvalidArgumentError, match="nested"):
            list(Dataset.range(2).map(lambda x: deep))


@pytest.mark.parametrize("numbers", [[1, 2.5, True], [np.float32(1.0), 2], [[1, 2], [3, 4]]], ids=str)
def test_numbers_in_an_array_of_objects_are_told_what_converts_them(numbers: list[Any]) -> None:
    array = np.array(numbers, object)
    with pytest.raises(InvalidArgumentError, match=r'Python objects .* that are numbers, .* array.astype\("float32"\)'):
        Dataset.from_tensor_slices(array)
    assert Dataset.from_tensor_slices(array.astype("float32")).cardinality() == len(numbers)


def test_a_number_that_is_too_large_says_how_large_whatever_stands_before_it() -> None:
    with pytest.raises(InvalidArgumentError, match="a number of 71 bits; expected at most 64"):
        Dataset.from_tensor_slices([1, 2**70])
