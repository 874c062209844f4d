"""Columns of numbers, and the intervals in which they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.errors import InvalidArgumentError
from simdist.feature_column.numeric import NumericColumn, bucketized_column, numeric_column


def test_rows_of_any_shape_become_flat_floats() -> None:
    image = np.arange(12).reshape(2, 2, 3)
    column = numeric_column("image", shape=(2, 3), dtype="int32")
    assert column.prepare({"image": image}).tolist() == image.reshape(2, 6).tolist()
    assert column.prepare({"image": image}).dtype == np.float32
    assert (column.name, column.width) == ("image", 6)
    assert numeric_column("x", shape=3).shape == numeric_column("x", shape=np.int64(3)).shape == (3,)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_a_single_number_needs_no_axis(shape: tuple[int, ...]) -> None:
    assert numeric_column("x").prepare({"x": np.ones(shape)}).shape == (4, 1)


@pytest.mark.parametrize("dtype", ["int64", "float32", "float16"])
def test_the_normalizer_gets_the_feature_as_it_is_and_its_result_becomes_float32(dtype: str) -> None:
    def column(normalizer_fn: Any) -> NumericColumn:
        return numeric_column("x", dtype=dtype, normalizer_fn=normalizer_fn)

    assert column(lambda x: x * 10).prepare({"x": np.array([3.75, 5.5])}).tolist() == [[37.5], [55.0]]
    big = np.array([2**40 + 1, 2**40 + 3])  # no float32
    assert column(lambda x: x - 2**40).prepare({"x": big}).tolist() == [[1.0], [3.0]]
    assert column(None).prepare({"x": np.array([0.1])}).tolist() == [[float(np.float32(0.1))]]
    assert column(lambda x: x / 2).prepare({"x": np.array([1, 2])}).dtype == np.float32


def test_true_and_false_are_one_and_nothing() -> None:
    column = numeric_column("x", normalizer_fn=lambda x: x - x.mean())
    assert column.prepare({"x": np.array([True, False])}).tolist() == [[0.5], [-0.5]]


def test_intervals_are_those_of_the_feature_and_not_of_its_nearest_float32() -> None:
    column = bucketized_column(numeric_column("x"), [2**40 + 2])
    assert column.prepare({"x": np.array([2**40 + 1, 2**40 + 2])}).tolist() == [[0], [1]]


def test_a_default_value_stands_for_a_feature_that_is_missing() -> None:
    others = {"y": np.zeros((3, 5))}
    assert numeric_column("x", default_value=2).prepare(others).tolist() == [[2.0]] * 3
    column = numeric_column("x", shape=2, default_value=[1, 2], normalizer_fn=lambda x: 10 * x)
    assert column.prepare(others).tolist() == [[10.0, 20.0]] * 3
    assert column.prepare({"x": np.ones((1, 2))}).tolist() == [[10.0, 10.0]]
    for given in (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]], [0, 1, 2, 3]):
        assert numeric_column("x", shape=np.full(2, 2), default_value=given).prepare(others).tolist() == [[0.0, 1.0, 2.0, 3.0]] * 3
    with pytest.raises(InvalidArgumentError, match=r"'y' is a single value.*Call dataset\.batch"):
        column.prepare({"y": np.float32(1)})


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"y": np.ones(2)}, "Did you mean|have no 'x'"),
        ({"x": np.ones((2, 3))}, r"rows of shape \(3,\)"),
        ({"x": np.array(["a"])}, "takes numbers"),
        ({"x": np.float32(1)}, "batch"),
        (np.ones(2), "dict of features"),
    ],
)
def test_features_that_do_not_fit_are_refused(features: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        numeric_column("x", shape=2).prepare(features)


def test_a_normalizer_must_keep_the_shape() -> None:
    with pytest.raises(InvalidArgumentError, match="must keep the shape"):
        numeric_column("x", normalizer_fn=np.sum).prepare({"x": np.ones(2)})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key": 1}, TypeError, "name of a feature"),
        ({"key": "x", "shape": 0}, ValueError, "shape is 0"),
        ({"key": "x", "shape": (2.5,)}, TypeError, "shape is 2.5"),
        ({"key": "x", "default_value": [1, 2]}, ValueError, "has 2 numbers"),
        ({"key": "x", "default_value": "a"}, TypeError, "default_value"),
        ({"key": "x", "default_value": 0.5, "dtype": "int32"}, ValueError, "is no int32"),
        ({"key": "x", "dtype": str}, ValueError, "numbers"),
        ({"key": "x", "dtype": "string"}, ValueError, "dtype='string'; expected one of numbers"),
        ({"key": "x", "dtype": 3}, ValueError, "dtype=3; expected one of numbers"),
        ({"key": "x", "normalizer_fn": 3}, TypeError, "normalizer_fn"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        numeric_column(**options)


def test_intervals_are_closed_below_and_counted_for_each_number() -> None:
    column = bucketized_column(numeric_column("x", shape=2), [0, 10])
    found = column.prepare({"x": np.array([[-1, 0], [9.9, 10]])})
    assert found.tolist() == [[0, 3 + 1], [1, 3 + 2]]
    assert column.num_buckets == column.width == 6
    assert column.name == "x_bucketized"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_a_boundary_is_in_the_interval_that_begins_with_it(dtype: str) -> None:
    boundaries = [0.7, 1.1, 2.3]  # the nearest float32 of some of them is lower, and of others higher
    column = bucketized_column(numeric_column("x", dtype=dtype), boundaries)
    given = np.array(boundaries) if dtype != "int32" else np.array([1, 2, 3])
    assert column.prepare({"x": given})[:, 0].tolist() == [1, 2, 3]
    assert column.prepare({"x": np.array([0, 1, 2])})[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("column", "boundaries", "error"),
    [
        ("x", [1], TypeError),
        (numeric_column("x"), [], InvalidArgumentError),
        (numeric_column("x"), [2, 2], InvalidArgumentError),
        (numeric_column("x", shape=(2, 2)), [1], InvalidArgumentError),
    ],
)
def test_boundaries_that_make_no_sense_are_refused(column: Any, boundaries: list[float], error: type[Exception]) -> None:
    with pytest.raises(error):
        bucketized_column(column, boundaries)
