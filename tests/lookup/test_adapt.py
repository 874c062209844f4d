"""Vocabularies that are learnt from data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError

WORDS = ["b", "a", "b", "c", "b", "a"]


@pytest.mark.parametrize(
    "data",
    [
        WORDS,
        np.array(WORDS),
        np.array(WORDS).reshape(2, 3),
        np.array(WORDS).reshape(1, 2, 3),
        sd.Dataset.from_tensor_slices(WORDS),
        sd.Dataset.from_tensor_slices(WORDS).batch(4),
        (["b", "a", "b"], ["c", "b", "a"]),
        (batch for batch in (["b", "a", "b"], ["c", "b", "a"])),
    ],
    ids=["list", "array", "matrix", "cube", "dataset", "batches", "tuple", "generator"],
)
def test_any_container_gives_the_same_vocabulary(data: Any) -> None:
    lookup = sd.StringLookup()
    lookup.adapt(data)
    assert lookup.get_vocabulary() == ["[UNK]", "b", "a", "c"]


def test_special_tokens_are_not_learnt() -> None:
    lookup = sd.StringLookup(mask_token="")
    lookup.adapt(["", "[UNK]", "a", ""])
    assert lookup.get_vocabulary() == ["", "[UNK]", "a"]


def test_weights_are_of_documents() -> None:
    """Values of TensorFlow 2.21: an item of an array is a document, and so is a batch of one axis of a dataset."""
    rows = sd.StringLookup(output_mode="tf_idf", mask_token="")
    rows.adapt([["d", "c", "d"], ["c", "e", ""]])
    assert rows.get_vocabulary() == ["[UNK]", "d", "c", "e"]
    assert rows.idf_weights is not None
    np.testing.assert_allclose(rows.idf_weights, [0.63237333, 0.6931472, 0.51082563, 0.6931472], rtol=1e-6)
    items, batches = sd.StringLookup(output_mode="tf_idf"), sd.StringLookup(output_mode="tf_idf")
    items.adapt(["d", "c", "d", "e"])
    np.testing.assert_allclose(items.idf_weights, [1.0148408, 0.84729785, 1.0986123, 1.0986123], rtol=1e-6)  # pyright: ignore[reportArgumentType]
    batches.adapt(sd.Dataset.from_tensor_slices(["d", "c", "d", "e"]).batch(2))
    np.testing.assert_allclose(batches.idf_weights, [0.63237333, 0.51082563, 0.6931472, 0.6931472], rtol=1e-6)  # pyright: ignore[reportArgumentType]


def test_steps_limit_a_dataset_without_an_end() -> None:
    words = sd.Dataset.from_tensor_slices(["a", "b"]).repeat()
    lookup = sd.StringLookup()
    lookup.adapt(words, steps=3)
    assert lookup.get_vocabulary() == ["[UNK]", "a", "b"]
    with pytest.raises(InvalidArgumentError, match="without an end"):
        lookup.adapt(words)
    with pytest.raises(InvalidArgumentError, match="steps is 0"):
        lookup.adapt(words, steps=0)


def test_elements_with_several_components_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="choose it first"):
        sd.StringLookup().adapt(sd.Dataset.from_tensor_slices({"a": WORDS}))


def test_a_vocabulary_that_was_given_is_not_learnt() -> None:
    with pytest.raises(InvalidArgumentError, match="whose vocabulary was given"):
        sd.StringLookup(vocabulary=["a"]).adapt(WORDS)


def test_a_second_adapt_forgets_the_first() -> None:
    lookup = sd.StringLookup()
    lookup.adapt(WORDS)
    lookup.adapt(["q"])
    assert lookup.get_vocabulary() == ["[UNK]", "q"]


def test_a_mapped_dataset_keeps_to_one_vocabulary() -> None:
    lookup = sd.StringLookup(vocabulary=["a", "b", "c"])
    dataset = sd.Dataset.from_tensor_slices(WORDS * 20)
    mapped = dataset.map(lambda word: lookup(word))
    assert [int(x) for x in mapped.take(3)] == [2, 1, 2]
    lookup.set_vocabulary(["b", "a", "c"])
    assert [int(x) for x in mapped.take(3)] == [2, 1, 2]
    assert [int(x) for x in dataset.map(lambda word: lookup(word)).take(3)] == [1, 2, 1]


NO_TOKENS: dict[str, Any] = {
    "list": [],
    "array": np.array([], str),
    "rows without tokens": np.zeros((0, 2), str),
    "rows of no token": np.zeros((2, 0), str),
    "dataset": sd.Dataset.from_tensor_slices(np.array([], str)).batch(2),
}


@pytest.mark.parametrize("data", NO_TOKENS)
@pytest.mark.parametrize("kind", [sd.StringLookup, sd.TextVectorization])
def test_no_tokens_leave_a_lookup_as_it_was(kind: Any, data: str) -> None:
    lookup = kind()
    if not (kind is sd.TextVectorization and data.startswith("rows")):  # which takes one text a row
        lookup.adapt(NO_TOKENS[data])
        with pytest.raises(FailedPreconditionError, match="no vocabulary yet"):
            lookup(["a"])


@pytest.mark.parametrize(
    ("make", "indices"),
    [
        (lambda: sd.TextVectorization(max_tokens=2), [[1, 1, 1]]),
        (lambda: sd.StringLookup(max_tokens=2, num_oov_indices=2, output_mode="count"), [0, 1]),  # by the hash of the whole text
    ],
)
def test_largest_vocabulary_may_be_that_of_the_special_tokens(make: Any, indices: Any) -> None:
    lookup = make()
    lookup.adapt(["a b b"])
    again = type(lookup).from_config(lookup.get_config())
    assert lookup(["a b b"]).tolist() == indices == again(["a b b"]).tolist()


def test_weights_need_a_token() -> None:
    with pytest.raises(InvalidArgumentError, match="expected at least one other token"):
        sd.StringLookup(max_tokens=2, num_oov_indices=2, output_mode="tf_idf").adapt(["a"])
