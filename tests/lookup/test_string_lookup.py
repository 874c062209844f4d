"""Strings become indices, and indices strings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from sampling import examples
from simdist.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from simdist.lookup.farmhash import bucket

ABC = ["a", "b", "c"]
WORDS = st.text("abcdé x", max_size=4)


@pytest.mark.parametrize(
    ("given_words", "expected"),
    [
        ("b", 2),
        (["a", "q"], [1, 0]),
        ((("a",), ("c",)), [[1], [3]]),
        (np.array(["a", "c"]), [1, 3]),
        (np.array([b"a", b"c"]), [1, 3]),
        (np.array(["a", b"c"], dtype=object), [1, 3]),
        (np.array(["a", "c"], dtype=np.dtypes.StringDType()), [1, 3]),
        (np.array([["a", "b"], ["c", "q"]])[:, ::-1], [[2, 1], [0, 3]]),
        ([], []),
        (np.empty((0, 3), "U1"), np.empty((0, 3)).tolist()),
    ],
)
def test_words_of_any_shape_and_container(given_words: Any, expected: Any) -> None:
    found = sd.StringLookup(vocabulary=ABC)(given_words)
    assert found.tolist() == expected
    assert found.dtype == np.int32


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([1, 2], TypeError, "was given int64; expected strings"),
        (jnp.array([1]), TypeError, "use sd.IntegerLookup"),
        (np.array(["a", 1], dtype=object), TypeError, "a int among strings"),
        ([["a"], ["a", "b"]], InvalidArgumentError, "rows of different lengths"),
        (np.array([b"\xff"]), InvalidArgumentError, "no utf-8"),
    ],
)
def test_what_is_no_text_is_refused(value: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        sd.StringLookup(vocabulary=ABC)(value)


def test_bytes_are_of_the_encoding() -> None:
    lookup = sd.StringLookup(vocabulary=["é"], encoding="latin-1")
    assert lookup(np.array([b"\xe9"])).tolist() == [1]
    with pytest.raises(InvalidArgumentError, match="expected the name of an encoding"):
        sd.StringLookup(encoding="utf-99")


def test_an_unknown_word_without_oov_indices_is_named() -> None:
    lookup = sd.StringLookup(vocabulary=ABC, num_oov_indices=0)
    with pytest.raises(InvalidArgumentError, match=r"was given 'q', 'z', not in its vocabulary; .* num_oov_indices=1"):
        lookup(["a", "q", "z", "q"])
    masked = sd.StringLookup(vocabulary=ABC, num_oov_indices=0, mask_token="m")
    assert masked(["a", "m"]).tolist() == [1, 0]


def test_an_unknown_word_of_a_dataset_raises_at_its_turn() -> None:
    lookup = sd.StringLookup(vocabulary=ABC, num_oov_indices=0)
    words = ["a", "b"] * 30 + ["q"] + ["c"] * 30
    iterator = iter(sd.Dataset.from_tensor_slices(words).map(lookup))
    assert [int(next(iterator)) for _ in range(60)] == [0, 1] * 30
    with pytest.raises(InvalidArgumentError, match="'q'"):
        next(iterator)


def test_a_call_without_a_vocabulary_is_refused() -> None:
    with pytest.raises(FailedPreconditionError, match=r"adapt\(data\) first"):
        sd.StringLookup()(["a"])
    assert sd.StringLookup().get_vocabulary() == ["[UNK]"]
    assert sd.StringLookup().vocabulary_size() == 1


def test_a_traced_value_is_sent_to_the_map_of_the_dataset() -> None:
    for lookup in (sd.StringLookup(vocabulary=ABC), sd.StringLookup(vocabulary=ABC, invert=True)):
        with pytest.raises(InvalidArgumentError, match=r"dataset\.map"):
            sd.function(lambda x, lookup=lookup: lookup(x))(jnp.array([1, 2]))


def test_a_symbolic_input_of_keras_is_sent_to_the_map_of_the_dataset() -> None:
    keras = pytest.importorskip("simdist.keras")
    with pytest.raises(TypeError, match=r"dataset\.map"):
        sd.StringLookup(vocabulary=ABC)(keras.Input((3,)))


# -- vocabularies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"vocabulary": []}, "the vocabulary is empty"),
        ({"vocabulary": ["a", "m"], "mask_token": "m"}, "mask token 'm' at position 1"),
        ({"vocabulary": ["a", "[UNK]"], "invert": True}, r"OOV token '\[UNK\]' at position 1"),
        ({"max_tokens": 1}, "max_tokens is 1"),
        ({"max_tokens": 2, "num_oov_indices": 3}, "expected as many"),
        ({"num_oov_indices": -1}, "num_oov_indices is -1"),
        ({"pad_to_max_tokens": True}, "max_tokens is None"),
        ({"output_mode": "multihot"}, "Did you mean 'multi_hot'"),
        ({"invert": True, "output_mode": "count"}, "indices become tokens"),
        ({"sparse": True}, "results are dense"),
        ({"idf_weights": [1.0], "vocabulary": ["a"]}, "leave the weights out"),
        ({"output_mode": "tf_idf", "vocabulary": ABC}, "idf_weights is missing"),
        ({"output_mode": "tf_idf", "vocabulary": ABC, "idf_weights": [1.0]}, "each of the 3 entries"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        sd.StringLookup(**arguments)


def test_special_tokens_may_stand_in_front_of_a_vocabulary() -> None:
    lookup = sd.StringLookup(vocabulary=["", "[UNK]", "a"], mask_token="")
    assert lookup.get_vocabulary() == ["", "[UNK]", "a"]
    assert lookup.get_vocabulary(include_special_tokens=False) == ["a"]
    assert lookup(["a"]).tolist() == [2]
    # Anywhere else it is a word like others.
    assert sd.StringLookup(vocabulary=["a", "[UNK]"])(["[UNK]", "q"]).tolist() == [2, 0]


def test_a_vocabulary_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("é\r\nb c\n\n".encode())
    for given_path in (path, str(path)):
        assert sd.StringLookup(vocabulary=given_path).get_vocabulary() == ["[UNK]", "é", "b c"]
    with pytest.raises(NotFoundError, match="no vocabulary file"):
        sd.StringLookup(vocabulary=str(tmp_path / "none"))


def test_a_vocabulary_can_be_replaced_but_promised_rows_keep_their_length() -> None:
    lookup = sd.StringLookup(vocabulary=ABC)
    before = lookup.state
    lookup.set_vocabulary(["x"])
    assert lookup.get_vocabulary() == ["[UNK]", "x"] and lookup.state != before
    counts = sd.StringLookup(vocabulary=ABC, output_mode="count")
    with pytest.raises(FailedPreconditionError, match="changed their length"):
        counts.set_vocabulary(["x"])


def test_equal_lookups_have_equal_states() -> None:
    assert sd.StringLookup(vocabulary=ABC).state == sd.StringLookup(vocabulary=ABC, name="other").state
    assert sd.StringLookup(vocabulary=ABC).state != sd.StringLookup(vocabulary=ABC, num_oov_indices=2).state
    assert sd.StringLookup(vocabulary=ABC).state != sd.StringLookup(vocabulary=ABC, output_mode="count").state


@pytest.mark.parametrize("output_mode", ["int", "multi_hot", "tf_idf"])
def test_a_config_makes_an_equal_lookup(output_mode: str) -> None:
    weights = [0.5, 1.0, 2.0] if output_mode == "tf_idf" else None
    lookup = sd.StringLookup(8, 2, "", vocabulary=ABC, idf_weights=weights, output_mode=output_mode, pad_to_max_tokens=True)
    again = sd.StringLookup.from_config(lookup.get_config())
    words = [["a", "q"], ["", "c"]]
    assert again.state == lookup.state
    assert again(words).tolist() == lookup(words).tolist()


# -- output modes ----------------------------------------------------------------------------------------------------------


def test_rows_of_modes_that_count() -> None:
    words = [["a", "c", "a"], ["q", "b", "m"]]
    assert sd.StringLookup(vocabulary=ABC, output_mode="count", mask_token="m")(words).tolist() == [[0, 2, 0, 1], [1, 0, 1, 0]]
    assert sd.StringLookup(6, vocabulary=ABC, output_mode="multi_hot", pad_to_max_tokens=True)(words).tolist() == [
        [0, 1, 0, 1, 0, 0],
        [1, 0, 1, 0, 0, 0],
    ]
    assert sd.StringLookup(vocabulary=ABC, output_mode="one_hot")([["a"], ["b"]]).tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert sd.StringLookup(vocabulary=ABC, output_mode="count")("a").tolist() == [0, 1, 0, 0]


def test_weights_of_unknown_words_are_the_mean_and_of_the_padding_zero() -> None:
    lookup = sd.StringLookup(6, vocabulary=ABC, idf_weights=[0.1, 0.2, 0.3], output_mode="tf_idf", pad_to_max_tokens=True)
    found = lookup([["a", "c", "a"], ["q", "b", "b"]])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0, 0.2, 0, 0.3, 0, 0], [0.2, 0, 0.4, 0, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize("mode", ["int", "one_hot", "multi_hot", "count", "tf_idf"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1)])
def test_a_dataset_has_the_rows_of_single_calls(mode: str, shape: tuple[int, ...]) -> None:
    words = np.random.default_rng(0).choice([*ABC, "q", "m"], (30, *shape))
    lookup = sd.StringLookup(vocabulary=ABC, idf_weights=[1.0, 2.0, 3.0] if mode == "tf_idf" else None, output_mode=mode, mask_token="m")
    dataset = sd.Dataset.from_tensor_slices(words).map(lookup)
    expected = [lookup(row) for row in words]
    assert [(x.dtype, x.shape, x.tolist()) for x in dataset] == [(x.dtype, x.shape, x.tolist()) for x in expected]


# -- against a loop ----------------------------------------------------------------------------------------------------------


@examples(50)
@given(
    vocabulary=st.lists(WORDS, min_size=1, max_size=8, unique=True),
    words=st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=12),
    num_oov_indices=st.integers(1, 4),
    mask=st.sampled_from([None, "", "m", "x"]),
)
def test_indices_are_those_of_a_plain_dictionary(
    vocabulary: list[str], words: list[list[str]], num_oov_indices: int, mask: str | None
) -> None:
    vocabulary = [word for word in vocabulary if word != mask] or ["only"]
    lookup = sd.StringLookup(vocabulary=vocabulary, num_oov_indices=num_oov_indices, mask_token=mask)
    first = int(mask is not None)
    known = {word: first + num_oov_indices + position for position, word in enumerate(vocabulary)}

    def index(word: str) -> int:
        return 0 if word == mask else known.get(word, first + bucket(word, num_oov_indices))

    expected = [[index(word) for word in row] for row in words]
    assert lookup(words).tolist() == expected
    assert [row.tolist() for row in sd.Dataset.from_tensor_slices(np.array(words)).map(lookup)] == expected
    inverted = sd.StringLookup(vocabulary=vocabulary, num_oov_indices=num_oov_indices, mask_token=mask, invert=True)
    words_again = [[word if word in known else mask if word == mask else "[UNK]" for word in row] for row in words]
    assert inverted(expected).tolist() == words_again


@pytest.mark.parametrize(("mode", "expected"), [("multi_hot", [[0, 0, 0]] * 2), ("count", [[0, 0, 0]] * 2), ("int", [[], []])])
def test_samples_may_be_empty(mode: str, expected: list[list[int]]) -> None:
    lookup = sd.StringLookup(vocabulary=["a", "b"], output_mode=mode)
    assert np.asarray(lookup(np.zeros((2, 0), "U1"))).tolist() == expected
