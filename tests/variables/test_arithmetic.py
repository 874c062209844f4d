"""A variable among other values: operators, comparisons, indices and loops give what numpy gives for its value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError

ROWS = np.array([[1.0, 2.0], [4.0, 8.0]], np.float32)
BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.matmul,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


def at_once(fn: Callable[[], Any]) -> Any:
    return fn()


def in_a_step(fn: Callable[[], Any]) -> Any:
    return sd.function(fn)()


@pytest.fixture(params=["whole", "sharded"])
def v(request: pytest.FixtureRequest) -> sd.Variable:
    """`ROWS`, in one place or cut into a row for each of two servers."""
    if request.param == "whole":
        return sd.Variable(ROWS, name="v")
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        return sd.Variable(ROWS, name="v")


@pytest.mark.parametrize("operation", BINARY)
def test_operator_gives_what_numpy_gives_on_either_side(operation: Callable[[Any, Any], Any], v: sd.Variable) -> None:
    other = np.array([[3.0, 2.0], [4.0, 1.0]], np.float32)
    np.testing.assert_allclose(operation(v, other), operation(ROWS, other), rtol=1e-6)
    np.testing.assert_allclose(operation(other, v), operation(other, ROWS), rtol=1e-6)
    np.testing.assert_allclose(operation(v, v), operation(ROWS, ROWS), rtol=1e-6)


def test_operators_work_in_a_step_with_numbers_and_numpy_arrays() -> None:
    v = sd.Variable(ROWS, name="v")
    results = in_a_step(lambda: (2 / v, v**2, abs(-v), v == 2.0, np.ones(2, np.float32) - v, np.float32(3) * v, v.read_value()))
    expected = (2 / ROWS, ROWS**2, ROWS, ROWS == 2.0, 1 - ROWS, 3 * ROWS, ROWS)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted)


def test_comparison_is_by_value_and_hash_by_identity() -> None:
    one, other = sd.Variable(2.0), sd.Variable(2.0)
    assert bool(one == other) and bool(one == 2.0) and not bool(one != other)
    assert {one: "one", other: "other"}[one] == "one"
    assert one.ref() == one.ref() and one.ref() != other.ref() and one.ref().deref() is one
    assert (one == "text") is False and (one is None or one == None) is False  # noqa: E711
    assert (sd.Variable([1.0, 2.0]) == [1.0, 2.0, 3.0]) is False


def test_variables_of_equal_value_as_arguments_of_a_step_are_different_variables() -> None:
    first, second = sd.Variable(1.0, name="first"), sd.Variable(1.0, name="second")
    step = sd.function(lambda v: v.assign_add(1.0))
    step(first)
    step(second)
    step(second)
    assert (float(first), float(second)) == (2.0, 3.0)


@pytest.mark.parametrize("run", [at_once, in_a_step])
@pytest.mark.parametrize("index", [2, -3, (0, 2), [0, 5], (slice(None), -3)], ids=str)
def test_index_out_of_range_raises_as_numpy_does(run: Callable[[Callable[[], Any]], Any], index: Any) -> None:
    v = sd.Variable(ROWS, name="v")
    with pytest.raises(IndexError):
        ROWS[index]
    with pytest.raises(IndexError, match=r"v: index -?\d is out of bounds"):
        run(lambda: v[index])


@pytest.mark.parametrize("index", [-1, (1, 0), slice(1, 9), [1, 0], (..., 1), None, np.array([True, False])], ids=str)
def test_index_gives_what_numpy_gives(index: Any, v: sd.Variable) -> None:
    np.testing.assert_array_equal(v[index], ROWS[index])


def test_index_that_a_step_works_out_is_taken_with_those_that_are_known() -> None:
    v = sd.Variable(ROWS, name="v")
    assert float(sd.function(lambda i: v[i, 1])(np.int32(1))) == 8.0
    with pytest.raises(IndexError, match="axis 1"):
        sd.function(lambda i: v[i, 2])(np.int32(1))


def test_iteration_ends_after_the_last_row(v: sd.Variable) -> None:
    assert [row.tolist() for row in v] == ROWS.tolist()
    (a, b), (c, d) = v
    assert [float(x) for x in (a, b, c, d)] == [1.0, 2.0, 4.0, 8.0]
    assert len(v) == 2 and 8.0 in v and 3.0 not in v


def test_scalar_has_no_length_and_is_not_iterated() -> None:
    with pytest.raises(TypeError, match="scalar"):
        len(sd.Variable(1.0))
    with pytest.raises(TypeError, match="scalar"):
        list(sd.Variable(1.0))
    assert bool(sd.Variable(1.0)) and not sd.Variable(0) and int(sd.Variable(3)) == 3


@pytest.mark.parametrize("run", [at_once, in_a_step])
@pytest.mark.parametrize("use", [jnp.sum, jnp.exp, lambda v: jax.lax.add(v, v), jax.jit(lambda x: x)], ids=["sum", "exp", "lax", "jit"])
def test_variable_given_to_a_function_of_jax_says_what_to_write(run: Callable[[Callable[[], Any]], Any], use: Callable[[Any], Any]) -> None:
    v = sd.Variable(ROWS, name="v")
    with pytest.raises(InvalidArgumentError, match=r"v\.value"):
        run(lambda: use(v))


def test_augmented_assignment_says_what_changes_the_variable() -> None:
    v = same = sd.Variable(1.0, name="v")
    with pytest.raises(FailedPreconditionError, match="assign_add"):
        v += 1.0
    with pytest.raises(FailedPreconditionError, match="assign"):
        v *= 2.0
    assert v is same and float(v) == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_a_list_of_numbers_beside_a_variable_is_an_array_of_its_dtype(dtype: str) -> None:
    v, value, given = sd.Variable([1, 2], dtype=dtype), np.array([1, 2], dtype), [3, 4]
    for found, expected in ((v + given, value + np.array(given, dtype)), (given - v, np.array(given, dtype) - value)):
        np.testing.assert_array_equal(found, expected)
        assert str(found.dtype) == dtype
