"""Categories: numbers, words of a vocabulary, and hashes of words.

A row may have several categories: features of shape (b,) or (b, k). -1 and the empty word stand for "none".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.feature_column.base import CategoricalColumn, feature_of, require_key
from simdist.lookup.farmhash import bucket
from simdist.program.arrays import HostArray

__all__ = [
    "HashedColumn",
    "IdentityColumn",
    "VocabularyColumn",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_list",
]

NONE = -1
Token = str | int


@dataclass(frozen=True)
class IdentityColumn(CategoricalColumn):
    """Categories that are numbers already; see `categorical_column_with_identity`."""

    key: str
    number_buckets: int
    default_value: int | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        ids = _rows(feature_of(features, self.key), self.key)
        if ids.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"The feature {self.key!r} has the dtype {ids.dtype}; categorical_column_with_identity takes integers."
            )
        outside = (ids != NONE) & ((ids < 0) | (ids >= self.number_buckets))
        if self.default_value is None and outside.any():
            raise InvalidArgumentError(
                f"The feature {self.key!r} has the category {ids[outside][0]}; there are 0 to {self.number_buckets - 1}. Give a larger "
                "num_buckets, or a default_value for such."
            )
        return np.where(outside, NONE if self.default_value is None else self.default_value, ids.astype(np.int64)).astype(np.int32)


@dataclass(frozen=True)
class VocabularyColumn(CategoricalColumn):
    """Words of a list; see `categorical_column_with_vocabulary_list`."""

    key: str
    vocabulary_list: tuple[Token, ...]
    default_value: int
    num_oov_buckets: int

    @property
    def name(self) -> str:
        return self.key

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        known = {token: position for position, token in enumerate(self.vocabulary_list)}
        tokens = _tokens(_rows(feature_of(features, self.key), self.key), self.key, type(self.vocabulary_list[0]))
        return _mapped(tokens, lambda token: known.get(token, self._unknown(token)))

    def _unknown(self, token: Token) -> int:
        if not self.num_oov_buckets:
            return self.default_value
        return len(self.vocabulary_list) + bucket(str(token), self.num_oov_buckets)


@dataclass(frozen=True)
class HashedColumn(CategoricalColumn):
    """Hashes of words; see `categorical_column_with_hash_bucket`."""

    key: str
    hash_bucket_size: int

    @property
    def name(self) -> str:
        return self.key

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        rows = _rows(feature_of(features, self.key), self.key)
        tokens = _tokens(rows, self.key, int if rows.dtype.kind in "iu" else str)
        return _mapped(tokens, lambda token: bucket(str(token), self.hash_bucket_size))


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> IdentityColumn:
    """A feature whose values are the numbers of categories.

    Args:
        key: its name in the features.
        num_buckets: how many categories there are; they are 0 to num_buckets - 1, and -1 is none.
        default_value: the category of all other numbers; default: they are an error.

    Raises:
        TypeError: key is no text, or a number no integer.
        InvalidArgumentError: num_buckets is below 1, or default_value no category.

    Example:
        >>> import numpy as np
        >>> categorical_column_with_identity("day", 7, default_value=0).prepare({"day": np.array([3, 9, -1])}).tolist()
        [[3], [0], [-1]]
    """
    count = whole_number(num_buckets, "num_buckets", 1)
    if default_value is not None and not 0 <= whole_number(default_value, "default_value") < count:
        raise InvalidArgumentError(f"default_value={default_value} is no category of 0 to {count - 1}.")
    return IdentityColumn(require_key(key), count, default_value)


def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Sequence[Token], dtype: Any = None, default_value: int = NONE, num_oov_buckets: int = 0
) -> VocabularyColumn:
    """A feature whose values are words, or integers, of a list; the category of each is its place in the list.

    Args:
        key: its name in the features.
        vocabulary_list: all words, or all integers.
        dtype: to be left out: the list says it.
        default_value: the category of all other words; -1 (the default): none.
        num_oov_buckets: other words share so many categories after those of the list, by their hashes.

    Raises:
        TypeError: key is no text, the list is one, or it has neither words nor integers.
        InvalidArgumentError: an empty list, a word twice, both default_value and num_oov_buckets, a default_value that is no category, or
            a dtype.

    Example:
        >>> import numpy as np
        >>> column = categorical_column_with_vocabulary_list("colour", ["red", "green"])
        >>> column.prepare({"colour": np.array(["green", "blue"])}).tolist()
        [[1], [-1]]
    """
    if dtype is not None:
        raise InvalidArgumentError(f"dtype={dtype!r}: the vocabulary_list says itself whether there are words or integers. Leave it out.")
    tokens = _vocabulary(key, vocabulary_list)
    oov = whole_number(num_oov_buckets, "num_oov_buckets", 0)
    default = whole_number(default_value, "default_value", NONE)
    if oov and default != NONE:
        raise InvalidArgumentError(
            f"default_value={default} and num_oov_buckets={oov} cannot both be given: other words have one or the other."
        )
    if default >= len(tokens):
        raise InvalidArgumentError(f"default_value={default} is no category; the vocabulary_list of {key!r} has {len(tokens)} words.")
    return VocabularyColumn(require_key(key), tokens, default, oov)


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = None) -> HashedColumn:
    """A feature of words, or integers, whose category is a hash: that of FarmHash, as in TensorFlow.

    Args:
        key: its name in the features.
        hash_bucket_size: how many categories there are.
        dtype: to be left out: the feature says it.

    Raises:
        TypeError: key is no text, or hash_bucket_size no integer.
        InvalidArgumentError: hash_bucket_size is below 2, or a dtype.

    Example:
        >>> import numpy as np
        >>> categorical_column_with_hash_bucket("word", 2).prepare({"word": np.array(["x", "y", ""])}).tolist()
        [[0], [1], [-1]]
    """
    if dtype is not None:
        raise InvalidArgumentError(f"dtype={dtype!r}: the feature says itself whether it is words or integers. Leave it out.")
    return HashedColumn(require_key(key), whole_number(hash_bucket_size, "hash_bucket_size", 2))


def _vocabulary(key: str, given: Sequence[Token]) -> tuple[Token, ...]:
    if isinstance(given, (str, bytes)):
        raise TypeError(f"The vocabulary_list of {key!r} is {given!r}, whose letters would be its words. Give a list of words.")
    tokens = tuple(token.item() if isinstance(token, np.generic) else token for token in given)
    if not tokens:
        raise InvalidArgumentError(f"The vocabulary_list of {key!r} is empty.")
    if not (all(type(token) is str for token in tokens) or all(type(token) is int for token in tokens)):
        raise TypeError(f"The vocabulary_list of {key!r} must be all words or all integers; got {list(tokens)!r}")
    if len(set(tokens)) < len(tokens):
        twice = next(token for token in tokens if tokens.count(token) > 1)
        raise InvalidArgumentError(f"The vocabulary_list of {key!r} has {twice!r} twice.")
    return tokens


def _rows(array: HostArray, key: str) -> HostArray:
    if array.ndim > 2:
        raise InvalidArgumentError(f"The feature {key!r} has shape {array.shape}; a categorical column takes (b,) or (b, k).")
    return array if array.ndim == 2 else array[:, None]


def _tokens(array: HostArray, key: str, kind: type) -> HostArray:
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in ("U" if kind is str else "iu"):
        wanted = "words" if kind is str else "integers"
        raise InvalidArgumentError(f"The feature {key!r} has the dtype {array.dtype}, and its column takes {wanted}.")
    return array


def _mapped(tokens: HostArray, category: Callable[[Token], int]) -> HostArray:
    """The category of each token; of -1 and of the empty word, none."""
    unique, places = np.unique(tokens, return_inverse=True)
    categories = [NONE if token in ("", NONE) else category(token) for token in unique.tolist()]
    return np.asarray(categories, np.int32)[places].reshape(tokens.shape)
