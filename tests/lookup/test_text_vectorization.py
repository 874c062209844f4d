"""Texts become the indices of their words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError

CAT = ["the", "cat", "sat"]


# Expected values are those of TensorFlow 2.21 with Keras 3.15, except where the name says otherwise.
@pytest.mark.parametrize(
    ("arguments", "texts", "expected"),
    [
        ({"vocabulary": CAT}, [["The cat, sat!"], ["dog"]], [[2, 3, 4], [1, 0, 0]]),
        ({"vocabulary": CAT}, [[["The cat"]], [["dog"]]], [[[2, 3]], [[1, 0]]]),
        ({"vocabulary": CAT, "output_sequence_length": 2}, ["the cat sat", ""], [[2, 3], [0, 0]]),
        ({"vocabulary": CAT, "split": None}, [["the", "cat"], ["dog", "sat"]], [[2, 3], [1, 4]]),
        ({"vocabulary": CAT, "split": None, "output_sequence_length": 3}, [["the", "cat"], ["dog", "sat"]], [[2, 3, 0], [1, 4, 0]]),
        ({"vocabulary": list("abcé "), "split": "character"}, ["abé c", "b"], [[2, 3, 5, 6, 4], [3, 0, 0, 0, 0]]),
        ({"vocabulary": ["a", "a b", "b"], "ngrams": 2}, ["a b c", "b"], [[2, 4, 1, 3, 1], [4, 0, 0, 0, 0]]),
        ({"vocabulary": ["a", "a b", "b"], "ngrams": (2,)}, ["a b c", "b"], [[3, 1], [0, 0]]),
        ({"vocabulary": ["é", "É"], "standardize": "lower"}, ["É é"], [[3, 2]]),  # letters outside of ASCII stay as they are
        ({"vocabulary": ["a", "b"], "standardize": None}, ["a\u00a0b\u2003a\tb\x1cb\x85a\x0bb"], [[1, 1, 3]]),  # so does their space
        ({"vocabulary": CAT, "output_mode": "count"}, ["The cat, sat the!", "dog"], [[0, 2, 1, 1], [1, 0, 0, 0]]),
        ({"vocabulary": CAT, "output_mode": "multi_hot"}, "The cat, sat the!", [0, 1, 1, 1]),
        ({"vocabulary": CAT, "output_mode": "multi_hot", "split": None}, [["the", "cat"], ["dog", "sat"]], [[0, 1, 1, 0], [1, 0, 0, 1]]),
        ({"vocabulary": CAT, "output_mode": "one_hot"}, "the dog", [[0, 1, 0, 0], [1, 0, 0, 0]]),
        ({"vocabulary": ["a"]}, ["", ""], [[], []]),
    ],
)
def test_indices_of_texts(arguments: dict[str, Any], texts: Any, expected: Any) -> None:
    assert sd.TextVectorization(**arguments)(texts).tolist() == expected


def test_weights_of_texts() -> None:
    vectorize = sd.TextVectorization(vocabulary=CAT, output_mode="tf_idf", idf_weights=[0.1, 0.2, 0.3])
    np.testing.assert_allclose(vectorize(["The cat, sat the!", "dog"]), [[0, 0.2, 0.2, 0.3], [0.2, 0, 0, 0]], rtol=1e-6)


def test_functions_of_users_get_arrays_of_strings() -> None:
    vectorize = sd.TextVectorization(
        vocabulary=["a", "b"], standardize=np.strings.lower, split=lambda texts: [text.split("-") for text in texts.tolist()]
    )
    assert vectorize(["A-B", "B"]).tolist() == [[2, 3], [3, 0]]
    assert vectorize("A-B").tolist() == [2, 3]
    short = sd.TextVectorization(vocabulary=["a"], standardize=lambda texts: texts[:1])
    with pytest.raises(InvalidArgumentError, match="expected one string for each"):
        short(["a", "b"])
    with pytest.raises(InvalidArgumentError, match="1 rows for 2 texts"):
        sd.TextVectorization(vocabulary=["a"], split=lambda texts: [["a"]])(["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ragged": True}, "rows are filled up"),
        ({"sparse": True}, "results are dense"),
        ({"standardize": "upper"}, "standardize='upper' is not known"),
        ({"split": "line"}, "split='line' is not known"),
        ({"ngrams": 0}, "ngrams is 0"),
        ({"ngrams": [1, 2]}, "tuple of them"),
        ({"output_sequence_length": 4, "output_mode": "count"}, "expected 'int'"),
        ({"output_sequence_length": -1}, "output_sequence_length is -1"),
        ({"max_tokens": 4, "vocabulary": CAT}, "max_tokens is 4"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        sd.TextVectorization(**arguments)


def test_texts_that_do_not_fit_are_refused() -> None:
    vectorize = sd.TextVectorization(vocabulary=CAT)
    with pytest.raises(InvalidArgumentError, match="a last axis of 1"):
        vectorize([["a", "b"]])
    with pytest.raises(InvalidArgumentError, match="ragged"):
        sd.TextVectorization(vocabulary=CAT, output_mode="one_hot")(["a", "a b"])
    with pytest.raises(FailedPreconditionError, match="no vocabulary yet"):
        sd.TextVectorization()(["a"])
    with pytest.raises(TypeError, match="expected strings"):
        vectorize([1])


@pytest.mark.parametrize(
    "container", [list, np.array, sd.Dataset.from_tensor_slices, lambda texts: sd.Dataset.from_tensor_slices(texts).batch(2), iter]
)
def test_adapt_learns_from_any_container(container: Any) -> None:
    vectorize = sd.TextVectorization()
    vectorize.adapt(container(["Foo bar", "bar baz", "baz bada boom"]))
    assert vectorize.get_vocabulary() == ["", "[UNK]", "baz", "bar", "foo", "boom", "bada"]
    assert vectorize.vocabulary_size() == 7


def test_adapt_counts_documents() -> None:
    vectorize = sd.TextVectorization(output_mode="tf_idf")
    vectorize.adapt(["foo bar bar", "bar baz"])
    assert vectorize.get_vocabulary() == ["[UNK]", "bar", "foo", "baz"]
    np.testing.assert_allclose(vectorize(["foo q"]), [[0.6323733, 0, 0.6931472, 0]], rtol=1e-6)


def test_max_tokens_and_config() -> None:
    vectorize = sd.TextVectorization(4, ngrams=2, output_sequence_length=3)
    vectorize.adapt(["foo bar", "bar baz", "baz bada boom"])
    assert vectorize.get_vocabulary() == ["", "[UNK]", "baz", "bar"]
    again = sd.TextVectorization.from_config(vectorize.get_config())
    assert again(["bar baz foo"]).tolist() == vectorize(["bar baz foo"]).tolist() == [[3, 2, 1]]
    assert again.state == vectorize.state


@pytest.mark.parametrize(
    "arguments",
    [
        {"output_sequence_length": 3},
        {},
        {"output_mode": "count"},
        {"output_mode": "multi_hot", "ngrams": 2},
        {"split": "character", "output_sequence_length": 5},
        {"standardize": np.strings.lower, "output_sequence_length": 3},
        {"split": None},
        {"split": None, "output_mode": "one_hot"},
    ],
)
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_dataset_has_the_rows_of_single_calls(arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
    texts = np.random.default_rng(0).choice(["the cat", "sat", "a b c d e", "The, cat!", ""], (30, *shape))
    vectorize = sd.TextVectorization(vocabulary=[*CAT, "a", "the cat"], **arguments)
    dataset = sd.Dataset.from_tensor_slices(texts).map(vectorize)
    expected = [vectorize(text) for text in texts]
    assert [(x.shape, x.tolist()) for x in dataset] == [(x.shape, x.tolist()) for x in expected]
