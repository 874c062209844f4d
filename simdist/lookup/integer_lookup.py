"""`IntegerLookup`: integers become indices, or indices integers; also inside a step.

Taught in lesson 06.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from simdist.arguments import known_word, whole_number
from simdist.errors import InvalidArgumentError
from simdist.lookup.index_lookup import IndexLookup
from simdist.lookup.keys import IntegerKeys
from simdist.lookup.values import integers_of, is_traced, kept_integers
from simdist.lookup.vocabulary import tokens_of_file

__all__ = ["IntegerLookup"]


class IntegerLookup(IndexLookup):
    """Integers to indices, as ``keras.layers.IntegerLookup`` does it, without TensorFlow.

    Call it with integers of any shape: in the map of a dataset, where a function that only looks up, picks, compares and computes is called
    once for all rows, or in a step, which keeps the vocabulary of the moment at which it was traced.

    Args:
        max_tokens: largest number of indices, special ones included; None: no limit.
        num_oov_indices: indices for integers that are not in the vocabulary. With 2 or more, the integer modulo their number says which;
            with 0, such an integer is an error.
        mask_token: an integer of index 0, which counts nothing in other output modes; None: there is none.
        oov_token: what an inverted lookup gives for all other indices.
        vocabulary: the integers, or the path of a file with one a line; special tokens may stand in front. None: call `adapt`.
        vocabulary_dtype: only "int64".
        idf_weights: one for each integer, for "tf_idf".
        invert: indices become integers of the vocabulary.
        output_mode: "int", "one_hot", "multi_hot", "count" or "tf_idf".
        sparse: only False; there are no sparse tensors.
        pad_to_max_tokens: rows of other modes than "int" have length `max_tokens`.
        name: for messages and placements.

    Raises:
        InvalidArgumentError: arguments that contradict each other, or a vocabulary with repeated or too many integers.
        NotFoundError: no vocabulary file.

    Example:
        >>> import simdist as sd
        >>> sd.IntegerLookup(vocabulary=[10, 20, 30])([10, 20, 99, -1])
        array([1, 2, 0, 0], dtype=int32)
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int = -1,
        vocabulary: Any = None,
        vocabulary_dtype: str = "int64",
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        name: str | None = None,
    ) -> None:
        given = cast("object", vocabulary_dtype)
        known_word(str(given) if isinstance(given, np.dtype) else given, "vocabulary_dtype", ("int64",))
        mask_token = None if mask_token is None else whole_number(mask_token, "mask_token")
        oov_token = whole_number(oov_token, "oov_token")
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

    def _tokens_of(self, values: Any) -> Any:
        return integers_of(values, self.name)

    def _listed(self, vocabulary: Any) -> list[int]:
        if not isinstance(vocabulary, (str, os.PathLike)):
            return np.atleast_1d(np.asarray(self._tokens_of(vocabulary))).ravel().tolist()
        try:
            return [int(line) for line in tokens_of_file(Path(vocabulary), "utf-8")]
        except ValueError as error:
            raise InvalidArgumentError(f"the vocabulary file {os.fspath(vocabulary)!r}: {error}; expected one integer a line") from None

    def _indexed(self, tokens: Sequence[int]) -> IntegerKeys:
        return IntegerKeys(tokens)

    def _buckets(self, values: Any, absent: Any) -> Any:
        return values % self.special.num_oov_indices

    def _shown(self, positions: Any, masked: Any) -> Any:
        tokens = [] if self._keys is None else self._keys.keys
        mask_token = 0 if self.special.mask_token is None else self.special.mask_token
        shown = kept_integers(np.array([*tokens, self.special.oov_token, mask_token], np.int64), self.name)
        known = (positions >= 0) & (positions < len(tokens))
        xp: Any = jnp if is_traced(positions) else np
        return xp.asarray(shown)[xp.where(masked, len(tokens) + 1, xp.where(known, positions, len(tokens)))]
