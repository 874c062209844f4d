"""What a variable may be made of and be given: numbers that its dtype can hold, and arguments that mean something."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError

TOO_LARGE = [2**40 + 1, -(2**35), np.uint64(2**63), 1e300, np.float64(-1e39)]


@pytest.mark.parametrize("value", TOO_LARGE)
def test_number_that_does_not_fit_names_itself_and_the_remedy(value: Any) -> None:
    shown = rf"{np.asarray(value).item()!r}, which does not fit .*jax_enable_x64".replace("+", r"\+")
    with pytest.raises(InvalidArgumentError, match=shown):
        sd.Variable(value)
    v = sd.Variable(np.zeros_like(value))
    with pytest.raises(InvalidArgumentError, match=shown):
        v.assign(value)


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), np.int64(7), 1e38, float("inf"), float("nan"), 0.1])
def test_number_that_fits_is_narrowed_silently(value: Any) -> None:
    v = sd.Variable(value)
    assert v.dtype in ("int32", "float32")
    np.testing.assert_allclose(v.numpy(), value, rtol=1e-7)


def test_explicit_64_bits_are_32_where_x64_is_off() -> None:
    assert sd.Variable(5, dtype="int64").dtype == "int32"
    with pytest.raises(InvalidArgumentError, match="x64"):
        sd.Variable(2**40, dtype="int64")


@pytest.mark.parametrize("value", [[0.5, 1.0], [1.7, 2.2], [float("nan"), 0.0]])
def test_integers_are_not_cut_off_from_floats(value: list[float]) -> None:
    with pytest.raises(InvalidArgumentError, match="no int32 can hold"):
        sd.Variable(value, dtype="int32")
    v = sd.Variable([7, 7])
    for change in (v.assign, v.assign_add, v.assign_sub):
        with pytest.raises(InvalidArgumentError, match="no int32 can hold"):
            change(value)
    v.assign([3.0, -4.0])
    v.assign_sub(1.0)
    assert v.numpy().tolist() == [2, -5]


def test_integers_are_not_cut_off_from_floats_of_a_step() -> None:
    v = sd.Variable(6, name="v")
    with pytest.raises(InvalidArgumentError, match="Round in the step"):
        sd.function(lambda: v.assign(v.value / 4))()
    sd.function(lambda: v.assign(jnp.round(v.value / 4).astype("int32")))()
    assert int(v) == 2


@pytest.mark.parametrize(
    "value", ["text", object(), [[1], [2, 3]], 10**30, 10**5000], ids=["text", "object", "ragged", "100 bits", "digits"]
)
def test_what_is_no_array_of_numbers_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="v was given"):
        sd.Variable(value, name="v")


def test_list_of_variables_and_values_of_the_step_is_assigned() -> None:
    v, w = sd.Variable([1.0, 2.0]), sd.Variable(5.0)
    sd.function(lambda x: v.assign([x, w]))(np.float32(7.0))
    assert v.numpy().tolist() == [7.0, 5.0]


def test_increment_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"shape \(3,\) cannot be added"):
        sd.Variable([1.0, 2.0]).assign_add([1.0, 2.0, 3.0])


@pytest.mark.parametrize("options", [{"trainable": "no"}, {"name": 3}, {"trainable": 1}], ids=str)
def test_argument_of_a_wrong_kind_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="expected"):
        sd.Variable(1.0, **options)


def test_trainable_variable_is_not_synchronised_on_read() -> None:
    with pytest.raises(InvalidArgumentError, match="trainable"):
        sd.Variable(1.0, trainable=True, synchronization=sd.VariableSynchronization.ON_READ)


def test_mean_of_booleans_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="MEAN"):
        sd.Variable(True, aggregation=sd.VariableAggregation.MEAN)


@pytest.mark.parametrize(("dtype", "kept"), [("float64", "float32"), (np.float64, "float32"), ("complex128", "complex64")])
def test_digits_that_were_asked_for_and_are_lost_are_warned_of(dtype: Any, kept: str) -> None:
    with pytest.warns(UserWarning, match=rf"'rate' was asked for as (float64|complex128) and is {kept}.*jax_enable_x64"):
        rate = sd.Variable(0.1, name="rate", dtype=dtype)
    assert rate.dtype == kept


def test_wide_numbers_without_a_word_for_their_dtype_and_whole_ones_are_not_warned_of() -> None:
    assert sd.Variable(np.float64(0.1)).dtype == "float32"
    assert sd.Variable(1, dtype="int64").dtype == "int32"
    assert sd.Variable(0.1, dtype=float).dtype == "float32" and sd.Variable(0.1, dtype=complex).dtype == "complex64"


@pytest.mark.parametrize("dtype", ["foo", "str", object, 5, "float128"])
def test_dtype_that_nobody_has_names_the_variable(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"dtype of the variable 'rate' is .*expected one of numbers that JAX has, such as 'float32'"):
        sd.Variable(1.0, name="rate", dtype=dtype)
