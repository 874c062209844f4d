"""Names of tf.data and TensorFlow that are not here: absent for Python, and the error says what to write."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.data import Dataset
from simdist.data.absent_names import OF_DATASETS, OF_THE_PACKAGE, OTHER_OPERATIONS, SAME_OPERATIONS, TYPES


@pytest.mark.parametrize("name", sorted(OF_DATASETS))
def test_a_method_that_is_not_here_says_what_to_write(name: str) -> None:
    dataset = Dataset.range(3)
    for owner in (dataset, Dataset):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'. Write instead: "):
            getattr(owner, name)


@pytest.mark.parametrize("name", sorted(OF_THE_PACKAGE))
def test_a_name_that_the_package_has_not_says_what_to_write(name: str) -> None:
    assert not hasattr(sd, name)
    with pytest.raises(AttributeError, match=f"module 'simdist' has no attribute '{name}'. Write instead: "):
        getattr(sd, name)


def test_operations_of_tensorflow_are_said_to_be_where_they_are() -> None:
    assert [name for name in SAME_OPERATIONS.split() if not hasattr(keras.ops, name)] == []
    for name, instead in (OTHER_OPERATIONS | TYPES).items():
        operation = re.match(r"keras\.ops\.(\w+)", instead)
        assert operation is None or hasattr(keras.ops, operation[1]), name
        assert not instead.startswith("the word") or keras.backend.standardize_dtype(name) == name


@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "gather"])
def test_operations_that_have_another_axis_where_none_is_given_say_so(name: str) -> None:
    """TensorFlow takes the first one, and keras.ops all elements in one row: another result, and no error."""
    assert "axis=0): without an axis" in OTHER_OPERATIONS[name]


def test_modules_of_tensorflow_that_have_another_content_here_say_where_a_name_is() -> None:
    with pytest.raises(AttributeError, match=r"'simdist.data' has no attribute 'experimental'. Write instead: the name itself"):
        _ = sd.data.experimental
    with pytest.raises(AttributeError, match=r"'simdist.debugging' has no attribute 'check_numerics'. Write instead: sd.check_numerics\("):
        _ = sd.debugging.check_numerics
    with pytest.raises(AttributeError, match=r"'simdist.debugging' has no attribute 'odd'$"):
        _ = sd.debugging.odd
    with pytest.raises(sd.errors.OpError):  # an `except` is not read before something fails
        raise sd.errors.UnavailableError("gone")


def test_other_names_get_the_error_of_python() -> None:
    for owner in (Dataset.range(3), Dataset, sd):
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing_of_the_kind'$"):
            getattr(owner, "nothing_of_the_kind")  # noqa: B009
    assert [int(x) for x in copy.copy(Dataset.range(3))] == [0, 1, 2]


@pytest.mark.parametrize("name", ["map", "batch", "filter", "element_spec"])
def test_windows_say_how_to_make_one_dataset_of_them(name: str) -> None:
    windows = Dataset.range(6).window(3)
    assert not hasattr(windows, name)
    with pytest.raises(AttributeError, match=r"flat_map\(lambda window: window.batch\(3\)\)"):
        getattr(windows, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'odd'$"):
        getattr(windows, "odd")  # noqa: B009


def test_elements_are_saved_and_read_as_the_error_says(tmp_path: Path) -> None:
    rows, path = Dataset.from_tensor_slices(([1, 2, 3], [0.5, 1.5, 2.5])), tmp_path / "rows.npz"
    np.savez(path, *next(iter(rows.batch(99))))
    again = Dataset.from_files([path], read=lambda found: tuple(np.load(found).values()))
    assert [(int(a), float(b)) for a, b in again] == [(1, 0.5), (2, 1.5), (3, 2.5)]


def test_random_numbers_are_drawn_as_the_error_says() -> None:
    numbers = Dataset.counter().map(lambda i: np.random.default_rng(int(i)).integers(1 << 31)).take(3)
    assert [int(x) for x in numbers] == [int(x) for x in numbers] and len({int(x) for x in numbers}) == 3


def test_an_attribute_error_of_a_function_is_no_absent_name() -> None:
    rows = Dataset.range(3).map(lambda number: number.no_such_method())
    with pytest.raises(AttributeError, match="no_such_method"):
        _ = rows.element_spec
