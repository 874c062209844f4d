"""Integers become indices, and indices integers; in a step too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from sampling import examples
from simdist.errors import InvalidArgumentError

LARGE = 2**32 + 5  # of whose bits the lower half is 5


def in_a_step(lookup: Any, values: Any) -> np.ndarray:
    """What a lookup gives for values that are traced."""
    return np.asarray(sd.function(lambda x: lookup(x))(values))


@pytest.mark.parametrize("value", [[10, 99], np.array([10, 99], np.uint8), jnp.array([10, 99]), np.array([10, 99], np.int64)])
def test_integers_of_any_container(value: Any) -> None:
    found = sd.IntegerLookup(vocabulary=[10, 20])(value)
    assert isinstance(found, np.ndarray) and found.dtype == np.int32
    assert found.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([10.0], TypeError, "was given float64; expected integers"),
        (["a"], TypeError, "use sd.StringLookup"),
        ([2**70], InvalidArgumentError, "at most 64 bits"),
        (np.array([2**64 - 1], np.uint64), InvalidArgumentError, "at most 64 bits"),
        ([[1], [1, 2]], InvalidArgumentError, "rows of different lengths"),
    ],
)
def test_what_is_no_integer_is_refused(value: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        sd.IntegerLookup(vocabulary=[10, 20])(value)


def test_numbers_of_64_bits_are_keys_on_the_host() -> None:
    lookup = sd.IntegerLookup(vocabulary=[LARGE, LARGE + 1])
    assert lookup(np.array([LARGE + 1, 1])).tolist() == [2, 0]
    with pytest.raises(InvalidArgumentError, match="does not fit int32"):
        sd.IntegerLookup(vocabulary=[LARGE], invert=True)([1])


def test_negative_numbers_have_buckets_as_in_tensorflow() -> None:
    assert sd.IntegerLookup(vocabulary=[10], num_oov_indices=3)([-1, -2, -3, -4]).tolist() == [2, 1, 0, 2]


def test_inverted_indices_are_integers() -> None:
    assert sd.IntegerLookup(vocabulary=[10, 20], invert=True)([0, 1, 2, 3]).tolist() == [-1, 10, 20, -1]
    assert sd.IntegerLookup(vocabulary=[10, 20], invert=True, mask_token=7)([0, 1, 2]).tolist() == [7, -1, 10]


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="vocabulary_dtype='int32' is not known; use one of 'int64'"):
        sd.IntegerLookup(vocabulary_dtype="int32")
    with pytest.raises(TypeError, match="mask_token"):
        sd.IntegerLookup(mask_token="a")  # pyright: ignore[reportArgumentType]
    (tmp_path / "numbers").write_text("10\n20\n")
    assert sd.IntegerLookup(vocabulary=tmp_path / "numbers").get_vocabulary() == [-1, 10, 20]
    (tmp_path / "words").write_text("a\n")
    with pytest.raises(InvalidArgumentError, match="one integer a line"):
        sd.IntegerLookup(vocabulary=tmp_path / "words")


def test_adapt_and_config() -> None:
    lookup = sd.IntegerLookup()
    lookup.adapt(np.array([[3, 5], [5, -1]]))
    assert lookup.get_vocabulary() == [-1, 5, 3]
    assert sd.IntegerLookup.from_config(lookup.get_config())([5, 3, 4]).tolist() == [1, 2, 0]


@examples(15)
@given(
    vocabulary=st.lists(st.integers(-20, 20), min_size=1, max_size=10, unique=True),
    values=st.lists(st.integers(-25, 25), min_size=1, max_size=20),
    num_oov_indices=st.integers(1, 4),
    mask=st.sampled_from([None, 0, 5]),
)
def test_indices_are_those_of_a_plain_dictionary_also_when_traced(
    vocabulary: list[int], values: list[int], num_oov_indices: int, mask: int | None
) -> None:
    vocabulary = [number for number in vocabulary if number != mask] or [99]
    lookup = sd.IntegerLookup(vocabulary=vocabulary, num_oov_indices=num_oov_indices, mask_token=mask)
    first = int(mask is not None)
    known = {number: first + num_oov_indices + position for position, number in enumerate(vocabulary)}
    expected = [0 if value == mask else known.get(value, first + value % num_oov_indices) for value in values]
    assert lookup(values).tolist() == expected
    assert jax.jit(lookup)(jnp.array(values, jnp.int32)).tolist() == expected


@pytest.mark.sample
@pytest.mark.parametrize("mode", ["int", "one_hot", "multi_hot", "count", "tf_idf"])
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8"])
def test_a_step_has_the_numbers_of_the_host(mode: str, dtype: str) -> None:
    weights = [0.5, 1.0, 2.0] if mode == "tf_idf" else None
    lookup = sd.IntegerLookup(vocabulary=[3, 300, LARGE], idf_weights=weights, output_mode=mode, mask_token=4)
    values = np.array([[3, 4, 5], [44, 3, 3]], dtype)
    found = in_a_step(lookup, values)
    assert (found.dtype, found.tolist()) == (lookup(values).dtype, lookup(values).tolist())


def test_an_unknown_integer_cannot_be_an_error_in_a_step() -> None:
    lookup = sd.IntegerLookup(vocabulary=[3], num_oov_indices=0)
    with pytest.raises(InvalidArgumentError, match="num_oov_indices=1"):
        in_a_step(lookup, np.array([3]))


def test_what_does_not_fit_an_integer_is_refused_in_a_step() -> None:
    for dtype in ("float32", "uint32"):
        with pytest.raises(TypeError, match=f"was given {dtype} in a step"):
            in_a_step(sd.IntegerLookup(vocabulary=[3]), np.array([3], dtype))


def test_an_inverted_lookup_in_a_step() -> None:
    lookup = sd.IntegerLookup(vocabulary=[30, 40], invert=True)
    assert in_a_step(lookup, np.array([0, 1, 2, 9])).tolist() == [-1, 30, 40, -1]


def test_a_lookup_inside_a_keras_model() -> None:
    keras = pytest.importorskip("simdist.keras")
    lookup = sd.IntegerLookup(vocabulary=[10, 20])
    model = keras.Sequential([keras.Input((2,), dtype="int32"), keras.layers.Lambda(lookup)])
    assert model.predict(np.array([[10, 5], [20, 10]], np.int32), verbose=0).tolist() == [[1, 0], [2, 1]]


@pytest.mark.parametrize(
    ("samples", "shape"), [(10, (1, 3)), ([10], (1, 3)), ([10, 20], (2, 3)), ([[10], [20]], (2, 3)), ([[10, 20]], (1, 2, 3))]
)
def test_one_hot_rows_have_the_shapes_of_keras(samples: Any, shape: tuple[int, ...]) -> None:
    indices = np.asarray(sd.IntegerLookup(vocabulary=[10, 20])(samples))
    assert sd.IntegerLookup(vocabulary=[10, 20], output_mode="one_hot")(samples).shape == shape
    assert keras.layers.CategoryEncoding(3, output_mode="one_hot")(indices).shape == shape
