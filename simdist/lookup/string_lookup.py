"""`StringLookup`: strings become indices, or indices strings.

Taught in lesson 06.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simdist.data.leaves import Array
from simdist.errors import InvalidArgumentError
from simdist.lookup.farmhash import bucket
from simdist.lookup.index_lookup import IndexLookup
from simdist.lookup.keys import TextKeys
from simdist.lookup.values import is_traced, text_of
from simdist.lookup.vocabulary import tokens_of_file

__all__ = ["StringLookup"]


class StringLookup(IndexLookup):
    """Strings to indices, as ``keras.layers.StringLookup`` does it, without TensorFlow.

    Call it with strings of any shape, best in the map of a dataset. There a function that only looks up, picks, compares and computes is
    called once for all rows.

    Args:
        max_tokens: largest number of indices, special ones included; None: no limit.
        num_oov_indices: indices for strings that are not in the vocabulary. With 2 or more, FarmHash64 of the UTF-8 bytes, modulo their
            number, says which (TensorFlow's buckets); with 0, such a string is an error.
        mask_token: a string of index 0, which counts nothing in other output modes; None: there is none.
        oov_token: what an inverted lookup gives for all other indices.
        vocabulary: the strings, or the path of a file with one a line; special tokens may stand in front. None: call `adapt`.
        idf_weights: one for each string, for "tf_idf".
        encoding: of bytes, in data and files.
        invert: indices become strings.
        output_mode: "int", "one_hot", "multi_hot", "count" or "tf_idf".
        sparse: only False; there are no sparse tensors.
        pad_to_max_tokens: rows of other modes than "int" have length `max_tokens`.
        name: for messages and placements.

    Raises:
        InvalidArgumentError: arguments that contradict each other, or a vocabulary with repeated or too many strings.
        NotFoundError: no vocabulary file.

    Example:
        >>> import simdist as sd
        >>> lookup = sd.StringLookup(vocabulary=["a", "b", "c"])
        >>> lookup([["a", "c"], ["q", "b"]])
        array([[1, 3],
               [0, 2]], dtype=int32)
        >>> sd.StringLookup(vocabulary=lookup.get_vocabulary(), invert=True)([1, 0, 3]).tolist()
        ['a', '[UNK]', 'c']
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: str | None = None,
        oov_token: str = "[UNK]",
        vocabulary: Any = None,
        idf_weights: Any = None,
        encoding: str = "utf-8",
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        name: str | None = None,
    ) -> None:
        for token, argument in (("" if mask_token is None else mask_token, "mask_token"), (oov_token, "oov_token")):
            if not isinstance(token, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"{argument} is {token!r}; expected a string")
        self.encoding = known_encoding(encoding)
        super().__init__(
            max_tokens,
            num_oov_indices,
            mask_token,
            oov_token,
            vocabulary,
            idf_weights,
            invert,
            output_mode,
            sparse,
            pad_to_max_tokens,
            name,
        )

    def _tokens_of(self, values: Any) -> Array:
        return text_of(values, self.encoding, self.name)

    def _listed(self, vocabulary: Any) -> list[str]:
        if isinstance(vocabulary, (str, os.PathLike)):
            return tokens_of_file(Path(vocabulary), self.encoding)
        return np.atleast_1d(self._tokens_of(vocabulary)).ravel().tolist()

    def _indexed(self, tokens: Sequence[str]) -> TextKeys:
        return TextKeys(tokens)

    def _buckets(self, values: Array, absent: Array) -> Array:
        words, where = np.unique(values[absent], return_inverse=True)
        buckets = np.zeros(values.shape, np.int64)
        buckets[absent] = np.array([bucket(word, self.special.num_oov_indices) for word in words.tolist()], np.int64)[where]
        return buckets

    def _shown(self, positions: Any, masked: Any) -> Array:
        if is_traced(positions):
            self._tokens_of(positions)  # which raises: strings have no place in a step
        tokens = [] if self._keys is None else self._keys.keys
        shown = np.array([*tokens, self.special.oov_token, self.special.mask_token or ""], dtype=str)
        known = (positions >= 0) & (positions < len(tokens))
        return shown[np.where(masked, len(tokens) + 1, np.where(known, positions, len(tokens)))]

    def _extra(self) -> Hashable:
        return self.encoding

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "encoding": self.encoding}


def known_encoding(encoding: str) -> str:
    """The name of an encoding of text.

    Raises:
        InvalidArgumentError: Python does not know it.
    """
    try:
        "".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise InvalidArgumentError(
            f"encoding is {encoding!r}; expected the name of an encoding of text; 'utf-8' is the usual one"
        ) from None
    return encoding
