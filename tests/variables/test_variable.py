"""What a variable is called, and what it gives numpy."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd


def test_a_variable_has_the_name_that_it_is_given_or_that_of_its_kind() -> None:
    assert (sd.Variable(1.0, name="v").name, sd.Variable(1.0).name, sd.Variable(1.0, name="").name) == ("v", "Variable", "")


@pytest.mark.parametrize("indices", [np.zeros((2, 0), int), np.zeros((0,), int), np.array([[1], [0]]), np.array([[[1, 2]]])], ids=np.shape)
def test_gather_nd_gives_the_axes_that_no_index_names(indices: np.ndarray) -> None:
    value = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    expected = np.array([value[tuple(index)] for index in indices.reshape(-1, indices.shape[-1])] if indices.shape[-1] else value)
    shape = indices.shape[:-1] + value.shape[indices.shape[-1] :]
    for found in (sd.Variable(value).gather_nd(indices), sd.function(sd.Variable(value).gather_nd)(indices)):
        np.testing.assert_array_equal(found, np.broadcast_to(expected, shape) if not indices.shape[-1] else expected.reshape(shape))
