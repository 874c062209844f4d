"""Categories: numbers, words of a vocabulary, hashes; and floats of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simdist.errors import InvalidArgumentError
from simdist.feature_column import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_list,
    embedding_column,
    indicator_column,
    numeric_column,
)
from simdist.lookup.farmhash import bucket


def test_numbers_outside_are_an_error_or_the_default() -> None:
    days = {"day": np.array([[0, 6], [7, -1]])}
    with pytest.raises(InvalidArgumentError, match="category 7; there are 0 to 6"):
        categorical_column_with_identity("day", 7).prepare(days)
    assert categorical_column_with_identity("day", 7, default_value=3).prepare(days).tolist() == [[0, 6], [3, -1]]
    with pytest.raises(InvalidArgumentError, match="takes integers"):
        categorical_column_with_identity("day", 7).prepare({"day": np.ones(2)})


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "int64"])
def test_a_default_may_be_larger_than_numbers_of_the_feature(dtype: str) -> None:
    column = categorical_column_with_identity("k", 300, default_value=299)
    given = np.array([0, 4, -5 if dtype[0] == "i" else 250], dtype)
    assert column.prepare({"k": given}).tolist() == [[0], [4], [299 if dtype[0] == "i" else 250]]


def test_a_batch_may_have_no_rows() -> None:
    assert categorical_column_with_vocabulary_list("k", ["a"]).prepare({"k": np.array([], str)}).shape == (0, 1)


def test_words_have_the_number_of_their_place() -> None:
    words = {"w": np.array([["b", "a"], ["c", ""]])}
    assert categorical_column_with_vocabulary_list("w", ["a", "b"]).prepare(words).tolist() == [[1, 0], [-1, -1]]
    assert categorical_column_with_vocabulary_list("w", ["a", "b"], default_value=1).prepare(words).tolist() == [[1, 0], [1, -1]]
    column = categorical_column_with_vocabulary_list("w", ["a", "b"], num_oov_buckets=3)
    assert column.prepare(words).tolist() == [[1, 0], [2 + bucket("c", 3), -1]]
    assert column.num_buckets == 5


def test_a_vocabulary_of_integers_and_words_as_bytes() -> None:
    years = categorical_column_with_vocabulary_list("y", [1960, 1980])
    assert years.prepare({"y": np.array([1980, 1961, -1])}).tolist() == [[1], [-1], [-1]]
    words = categorical_column_with_vocabulary_list("w", ["ä", "b"])
    assert words.prepare({"w": np.array(["ä".encode(), b"b"])}).tolist() == [[0], [1]]
    for column, values in ((years, ["a"]), (words, [1])):
        with pytest.raises(InvalidArgumentError, match="its column takes"):
            column.prepare({"y": np.array(values), "w": np.array(values)})


def test_hashes_are_those_of_words_and_of_written_integers() -> None:
    column = categorical_column_with_hash_bucket("w", 10)
    assert column.prepare({"w": np.array(["foo", "", "bar"])}).tolist() == [[bucket("foo", 10)], [-1], [bucket("bar", 10)]]
    assert column.prepare({"w": np.array([12])}).tolist() == [[bucket("12", 10)]]


def test_an_indicator_counts_and_leaves_out_what_is_no_category() -> None:
    column = indicator_column(categorical_column_with_vocabulary_list("w", ["a", "b"]))
    assert column.prepare({"w": np.array([["a", "a"], ["z", "b"]])}).tolist() == [[2.0, 0.0], [0.0, 1.0]]
    assert (column.name, column.width) == ("w_indicator", 2)


def test_an_embedding_prepares_numbers_and_says_how_wide_it_will_be() -> None:
    column = embedding_column(categorical_column_with_identity("day", 7), 4)
    assert column.prepare({"day": np.array([3])}).tolist() == [[3]]
    assert (column.name, column.width, column.combiner, column.trainable) == ("day_embedding", 4, "mean", True)


def test_categories_of_several_axes_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(b,\) or \(b, k\)"):
        categorical_column_with_hash_bucket("w", 10).prepare({"w": np.array([[["a"]]])})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: categorical_column_with_identity("a", 0), ValueError, "num_buckets is 0"),
        (lambda: categorical_column_with_identity("a", 2, default_value=2), ValueError, "no category"),
        (lambda: categorical_column_with_vocabulary_list("a", []), ValueError, "is empty"),
        (lambda: categorical_column_with_vocabulary_list("a", ["b", "b"]), ValueError, "'b' twice"),
        (lambda: categorical_column_with_vocabulary_list("a", ["b", 1]), TypeError, "all words or all integers"),
        (lambda: categorical_column_with_vocabulary_list("a", ["b"], default_value=1), ValueError, "no category"),
        (lambda: categorical_column_with_vocabulary_list("a", ["b"], default_value=0, num_oov_buckets=1), ValueError, "both"),
        (lambda: categorical_column_with_vocabulary_list("a", ["b"], dtype="string"), ValueError, "Leave it out"),
        (lambda: categorical_column_with_vocabulary_list("a", "xyz"), TypeError, "'xyz', whose letters"),
        (lambda: categorical_column_with_vocabulary_list("a", b"xyz"), TypeError, "whose letters"),  # type: ignore[arg-type]
        (lambda: categorical_column_with_hash_bucket("a", 1), ValueError, "hash_bucket_size is 1"),
        (lambda: categorical_column_with_hash_bucket("a", 2, dtype="string"), ValueError, "Leave it out"),
        (lambda: indicator_column(numeric_column("a")), TypeError, "column of categories"),  # type: ignore[arg-type]
        (lambda: embedding_column(categorical_column_with_identity("a", 2), 0), ValueError, "dimension is 0"),
        (lambda: embedding_column(categorical_column_with_identity("a", 2), 2, "max"), ValueError, "combiner='max'"),
        (lambda: embedding_column(categorical_column_with_identity("a", 2), 2, max_norm=1.0), ValueError, "max_norm"),  # type: ignore[arg-type]
        (lambda: embedding_column(categorical_column_with_identity("a", 2), 2, use_safe_embedding_lookup=False), ValueError, "zeros"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
