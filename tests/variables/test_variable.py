"""What a variable is called, and what it gives numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras


def test_a_variable_has_the_name_that_it_is_given_or_that_of_its_kind() -> None:
    assert (sd.Variable(1.0, name="v").name, sd.Variable(1.0).name, sd.Variable(1.0, name="").name) == ("v", "Variable", "")


@pytest.mark.parametrize("indices", [np.zeros((2, 0), int), np.zeros((0,), int), np.array([[1], [0]]), np.array([[[1, 2]]])], ids=np.shape)
def test_gather_nd_gives_the_axes_that_no_index_names(indices: np.ndarray) -> None:
    value = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    expected = np.array([value[tuple(index)] for index in indices.reshape(-1, indices.shape[-1])] if indices.shape[-1] else value)
    shape = indices.shape[:-1] + value.shape[indices.shape[-1] :]
    for found in (sd.Variable(value).gather_nd(indices), sd.function(sd.Variable(value).gather_nd)(indices)):
        np.testing.assert_array_equal(found, np.broadcast_to(expected, shape) if not indices.shape[-1] else expected.reshape(shape))


@pytest.mark.parametrize("make", [lambda: sd.Variable([1.0, 2.0]), lambda: keras.Variable([1.0, 2.0])], ids=["simdist", "Keras"])
def test_a_numpy_array_of_a_variable_is_a_copy_where_numpy_makes_copies(make: Callable[[], Any]) -> None:
    with sd.OneDeviceStrategy().scope():
        v = make()
    copy, seen = np.array(v), np.asarray(v)
    copy += 1
    assert (copy.tolist(), np.asarray(v).tolist()) == ([2.0, 3.0], [1.0, 2.0])
    assert np.shares_memory(seen, np.asarray(v)) and not seen.flags.writeable
    assert np.array(v, np.float64, copy=True).dtype == np.float64
    assert np.asarray(v, copy=False).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(v, np.float64, copy=False)


def test_nothing_is_subtracted_from_a_variable_of_bool() -> None:
    v = sd.Variable(np.array([True, False]))
    with pytest.raises(sd.errors.InvalidArgumentError, match="of bool"):
        v.assign_sub(np.array([True, True]))
    assert v.numpy().tolist() == [True, False]
