"""Tables from keys to values."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from sampling import examples
from simdist.errors import FailedPreconditionError, InvalidArgumentError


@pytest.mark.parametrize(
    ("table", "keys", "expected"),
    [
        (sd.StaticHashTable({"x": 1, "y": 2}, -1), [["x"], ["q"]], [[1], [-1]]),
        (sd.StaticHashTable((["x"], [1.5]), -1), "x", 1.5),
        (sd.StaticHashTable(([1, 2], ["a", "long"]), "?"), [2, 3], ["long", "?"]),
        (sd.StaticHashTable({10: True}, False), np.array([10, 11], np.uint8), [True, False]),
        (sd.StaticHashTable({-5: 7}, 0), jnp.array([-5, 5]), [7, 0]),
        (sd.StaticHashTable(sd.KeyValueTensorInitializer(["x"], [1], value_dtype="float32"), -1), [b"x", b"y"], [1.0, -1.0]),
        (sd.StaticHashTable(sd.KeyValueTensorInitializer(np.array(["x"], object), np.array([1]), "string", "int64"), -1), ["x"], [1]),
    ],
)
def test_values_of_keys(table: sd.StaticHashTable, keys: Any, expected: Any) -> None:
    assert table.lookup(keys).tolist() == table[keys].tolist() == table(keys).tolist() == expected


def test_facts_of_a_table() -> None:
    table = sd.StaticHashTable({"x": 1, "y": 2}, -1, name="ids")
    keys, values = table.export()
    assert (keys.tolist(), values.tolist()) == (["x", "y"], [1, 2])
    assert (table.size(), table.key_dtype, table.value_dtype, table.default_value) == (2, "string", "int32", -1)
    assert repr(table) == "StaticHashTable('ids', 2 keys, string to int32)"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sd.StaticHashTable({}, -1), InvalidArgumentError, "no keys"),
        (lambda: sd.StaticHashTable((["x"], [1, 2]), -1), InvalidArgumentError, r"shape \(1,\) and its values \(2,\)"),
        (lambda: sd.StaticHashTable((["x"], [[1, 2]]), -1), InvalidArgumentError, "one value for each key"),
        (lambda: sd.StaticHashTable({"x": 1}, "a"), TypeError, "default_value is 'a'"),
        (lambda: sd.StaticHashTable({"x": 1}, 1.5), TypeError, "dtype int32"),
        (lambda: sd.StaticHashTable({"x": 1}, [1]), TypeError, "expected one value"),
        (lambda: sd.StaticHashTable({1.5: 1}, -1), TypeError, "expected integers"),
        (lambda: sd.StaticHashTable(["x", "y", "z"], -1), TypeError, "a dict, or a pair"),
        (lambda: sd.StaticHashTable({"x": 2**40}, -1), InvalidArgumentError, "does not fit int32"),
        (lambda: sd.StaticHashTable({1: 1}, -1).lookup(["x"]), TypeError, "keys of dtype int64"),
        (lambda: sd.StaticHashTable({1: 1}, -1).lookup(1.0), TypeError, "expected integers"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@examples(15)
@given(
    entries=st.dictionaries(st.integers(-20, 20), st.integers(-100, 100), min_size=1, max_size=12),
    keys=st.lists(st.integers(-25, 25), min_size=1, max_size=20),
    default=st.integers(-5, 5),
)
def test_values_are_those_of_a_plain_dictionary_also_in_a_dataset_and_when_traced(
    entries: dict[int, int], keys: list[int], default: int
) -> None:
    table = sd.StaticHashTable(entries, default)
    expected = [entries.get(key, default) for key in keys]
    assert table.lookup(keys).tolist() == expected
    assert [int(value) for value in sd.Dataset.from_tensor_slices(keys).map(table.lookup)] == expected
    assert np.asarray(sd.function(lambda x: table.lookup(x))(np.array(keys, np.int32))).tolist() == expected


def test_a_table_of_strings_is_refused_in_a_step() -> None:
    with pytest.raises(InvalidArgumentError, match="dataset's map"):
        sd.function(lambda x: sd.StaticHashTable({1: "a"}, "?").lookup(x))(np.array([1]))
    with pytest.raises(InvalidArgumentError, match=r"dataset\.map"):
        sd.function(lambda x: sd.StaticHashTable({"a": 1}, -1).lookup(x))(np.array([1]))


def test_floats_and_their_gradients_in_a_step() -> None:
    table = sd.StaticHashTable({1: 0.5, 3: 2.5}, 0.0)
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v = sd.Variable(1.0)

    @sd.function
    def step(x: Any) -> Any:
        loss, (gradient,) = sd.value_and_grad(lambda: (table[x] * v.value).sum(), [v])()
        return loss, gradient

    loss, gradient = step(np.array([1, 3, 3, 9]))
    assert (float(loss), float(gradient)) == (5.5, 5.5)


@pytest.mark.parametrize("keys", [{"a": 1, 2: 3}, {"a": 1, 2.5: 3}], ids=str)
def test_keys_of_several_types_are_refused(keys: dict[Any, int]) -> None:
    with pytest.raises(TypeError, match="the table's keys are texts and numbers"):
        sd.StaticHashTable(keys, -1)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_nan_is_a_value_as_others_are(dtype: str) -> None:
    nan = np.array([np.nan, 1, np.nan], dtype)
    table = sd.StaticHashTable(sd.KeyValueTensorInitializer(["a", "b", "a"], nan), -1.0)
    assert np.array_equal(table[["a", "b", "c"]], np.array([np.nan, 1, -1], dtype), equal_nan=True)
    with pytest.raises(FailedPreconditionError, match="key 'a' with the values"):
        sd.StaticHashTable((["a", "a"], [np.nan, 1.0]), -1.0)


def test_keys_of_another_kind_than_those_of_the_table_are_refused() -> None:
    words, numbers = sd.StaticHashTable({"a": 1}, -1), sd.StaticHashTable({1: 2}, -1)
    for table, keys in ((words, [1]), (numbers, ["a"]), (words, [None])):
        with pytest.raises(TypeError, match="keys of dtype"):
            table.lookup(keys)
