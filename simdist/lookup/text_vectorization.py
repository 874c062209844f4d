"""`TextVectorization`: texts become the indices of their words.

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

import numpy as np

from simdist.arguments import flag, whole_number
from simdist.data.leaves import Array
from simdist.data.row_wise import NotByColumns, RowWise
from simdist.errors import InvalidArgumentError
from simdist.lookup.encodings import counted_rows, encoded, known_mode, weighted
from simdist.lookup.string_lookup import StringLookup
from simdist.lookup.texts import (
    SPLITS,
    STANDARDS,
    Tokens,
    joined_neighbours,
    known_choice,
    ngram_widths,
    padded,
    split_texts,
    standardized,
)
from simdist.lookup.token_counts import batches_of
from simdist.lookup.values import is_row_block, kept_integers, text_of
from simdist.variables.placement_record import PlacementRecord

__all__ = ["TextVectorization"]


class TextVectorization(RowWise):
    """Texts to indices of their words, as ``keras.layers.TextVectorization`` does it, without TensorFlow.

    Index 0 fills up short texts, index 1 stands for words that are not in the vocabulary.

    Args:
        max_tokens: largest number of indices, the two special ones included; None: no limit.
        standardize: "lower_and_strip_punctuation", "lower", "strip_punctuation" (all of ASCII), None, or a function of an array of strings.
        split: "whitespace" (of ASCII), "character", None, or a function from an array of strings to a list of lists of tokens.
        ngrams: an integer n for runs of 1 to n tokens, a tuple of lengths of runs, or None.
        output_mode: "int", "one_hot", "multi_hot", "count" or "tf_idf".
        output_sequence_length: to which "int" rows are cut or filled up; None: the longest text of the call.
        pad_to_max_tokens: rows of other modes than "int" have length `max_tokens`.
        vocabulary: the tokens, or the path of a file with one a line. None: call `adapt`.
        idf_weights: one for each token, for "tf_idf".
        sparse, ragged: only False; there are no such tensors.
        encoding: of bytes, in data and files.
        name: for messages and placements.

    Raises:
        InvalidArgumentError: arguments that contradict each other, or a vocabulary with repeated or too many tokens.
        NotFoundError: no vocabulary file.

    Example:
        >>> import simdist as sd
        >>> vectorize = sd.TextVectorization(vocabulary=["the", "cat", "sat"], output_sequence_length=4)
        >>> vectorize(["The cat, sat!", "dog"])
        array([[2, 3, 4, 0],
               [1, 0, 0, 0]], dtype=int32)
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace",
        ngrams: Any = None,
        output_mode: str = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        idf_weights: Any = None,
        sparse: bool = False,
        ragged: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
    ) -> None:
        self.name = type(self).__name__ if name is None else str(name)
        standardize = known_choice(standardize, list(STANDARDS), "standardize")
        split = known_choice(split, list(SPLITS), "split")
        if flag(ragged, "ragged"):
            raise InvalidArgumentError(
                f"{self.name} was given ragged=True; ragged tensors do not exist here; leave it out: rows are filled up"
            )
        self.standardize, self.split, self.ngrams = standardize, split, ngrams
        self.widths = ngram_widths(ngrams)
        self.output_mode = known_mode(output_mode)
        if output_sequence_length is not None:
            whole_number(output_sequence_length, "output_sequence_length", 0)
            if self.output_mode != "int":
                raise InvalidArgumentError(
                    f"output_sequence_length was given with output_mode={output_mode!r}; expected 'int'; leave the length out"
                )
        self.output_sequence_length = output_sequence_length
        self._lookup = StringLookup(
            max_tokens, 1, "", "[UNK]", vocabulary, idf_weights, encoding, False, output_mode, sparse, pad_to_max_tokens, self.name
        )

    # -- vocabulary -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> Hashable:
        functions = [how if not callable(how) else id(how) for how in (self.standardize, self.split)]
        return self._lookup.state, *functions, self.widths, self.output_mode, self.output_sequence_length

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary from texts: the most frequent tokens first.

        Args:
            data: an array or list of texts; or a dataset or an iterable of batches of texts.
            batch_size: accepted for Keras' sake.
            steps: number of batches of a dataset; None: all.
        """
        batches = batches_of(data, steps, lambda values: text_of(values, self._lookup.encoding, self.name))
        self._lookup.adapt_documents(batch if self._is_plain else self._tokens(batch, batch.ndim) for batch in map(self._prepared, batches))

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Replace the vocabulary; see `StringLookup.set_vocabulary`."""
        self._lookup.set_vocabulary(vocabulary, idf_weights)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The tokens; with the special ones in front, each at its index."""
        return self._lookup.get_vocabulary(include_special_tokens)

    def vocabulary_size(self) -> int:
        """The number of indices, those of special tokens included."""
        return self._lookup.vocabulary_size()

    # -- calls ----------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Any) -> Any:
        """Indices of the tokens of texts.

        Args:
            inputs: a text, an array of texts of shape [n] or [..., 1]; without `split`, tokens of shape [..., k].

        Returns:
            A numpy array of shape [n, length] for "int", [n, indices] for modes that count, int32 (unless x64 is on) or float32.

        Raises:
            InvalidArgumentError: a last axis that is not 1; texts of different lengths with "one_hot"; a traced value.
            FailedPreconditionError: there is no vocabulary yet.
        """
        if is_row_block(inputs):
            self.note_call()
            return inputs.given_to(self)
        values = text_of(inputs, self._lookup.encoding, self.name)
        self.note_call()
        return self._vectorized(self._prepared(values), 0)

    def of_rows(self, rows: Array) -> tuple[Array, None]:
        if callable(self.standardize) or callable(self.split):
            raise NotByColumns("a function of the user may depend on all texts of a call")
        if self.output_mode == "one_hot" or (self.output_mode == "int" and self.output_sequence_length is None and not self._is_plain):
            raise NotByColumns("the lengths of rows differ")
        return self._vectorized(self._prepared(text_of(rows, self._lookup.encoding, self.name)), 1), None

    @property
    def _is_plain(self) -> bool:
        """Whether tokens keep the axes of the texts."""
        return self.split is None and self.widths is None

    def _prepared(self, texts: Array) -> Array:
        if self.standardize is None:
            return texts
        return np.array(standardized(texts.ravel().tolist(), self.standardize), dtype=str).reshape(texts.shape)

    def _tokens(self, texts: Array, row_ndim: int) -> Tokens:
        """The tokens of each sample."""
        if self.split is None:
            rows: Tokens = texts.reshape(-1, texts.shape[-1] if row_ndim else 1).tolist()
        else:
            if row_ndim > 1 and texts.shape[-1] != 1:
                raise InvalidArgumentError(
                    f"{self.name} splits texts and was given shape {texts.shape[-row_ndim:]}; expected one axis, or a last axis of 1; "
                    "pass split=None where the tokens are split already"
                )
            rows = split_texts(texts.ravel().tolist(), self.split)
        return rows if self.widths is None else joined_neighbours(rows, self.widths)

    def _vectorized(self, texts: Array, lead: int) -> Array:
        row_ndim = texts.ndim - lead
        if self._is_plain:
            return self._plain(texts, lead)
        rows = self._tokens(texts, row_ndim)
        drops_axis = row_ndim > 1 or (self.split is None and row_ndim == 1)
        outer = texts.shape[:-1] if drops_axis else texts.shape
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = self._lookup.indices_of(np.array([token for row in rows for token in row], dtype=str))
        if self.output_mode == "int":
            width = int(lengths.max(initial=0)) if self.output_sequence_length is None else self.output_sequence_length
            return kept_integers(padded(flat, lengths, width), self.name).reshape(*outer, width)
        depth = self._lookup.depth
        if self.output_mode != "one_hot":
            counts = counted_rows(np.repeat(np.arange(len(rows)), lengths), flat, len(rows), depth)
            return weighted(counts, self.output_mode, self._lookup.idf_weights).reshape(*outer, depth)
        if len(set(lengths.tolist())) > 1:
            raise InvalidArgumentError(
                f"{self.name} was given texts of {lengths.min()} to {lengths.max()} tokens with output_mode='one_hot', whose rows would be "
                "ragged; expected texts of one length; use 'multi_hot' or 'count', or give one text at a time"
            )
        return encoded(flat.reshape(*outer, -1), "one_hot", depth, None, 0)

    def _plain(self, tokens: Array, lead: int) -> Array:
        """Tokens that were split already, of shape [..., k]."""
        indices, depth = self._lookup.indices_of(tokens), self._lookup.depth
        if self.output_mode != "int":
            return encoded(indices, self.output_mode, depth, self._lookup.idf_weights, lead)
        if self.output_sequence_length is not None:
            if tokens.ndim == lead:
                raise InvalidArgumentError(f"{self.name} was given a single token, and output_sequence_length; expected an axis of tokens")
            indices = indices[..., : self.output_sequence_length]
            missing = self.output_sequence_length - indices.shape[-1]
            indices = np.pad(indices, [(0, 0)] * (indices.ndim - 1) + [(0, missing)])
        return kept_integers(indices, self.name)

    # -- as data, and where it lies -------------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal layer: ``TextVectorization.from_config(config)``."""
        inner = self._lookup.get_config()
        shared = ("name", "max_tokens", "output_mode", "pad_to_max_tokens", "idf_weights", "encoding")
        has_more = bool(self.get_vocabulary(include_special_tokens=False))
        with_special = inner["idf_weights"] is not None or not has_more  # an empty vocabulary could not be given
        vocabulary = None if inner["vocabulary"] is None else self.get_vocabulary(include_special_tokens=with_special)
        own = {"standardize": self.standardize, "split": self.split, "ngrams": self.ngrams, "vocabulary": vocabulary}
        return {**{key: inner[key] for key in shared}, **own, "output_sequence_length": self.output_sequence_length}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The layer that `get_config` was called on."""
        return cls(**config)

    def placements(self) -> list[PlacementRecord]:
        """Which tasks hold a copy of the table: of one made in the scope of parameter servers, every worker that is up; else none."""
        return self._lookup.placements()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.vocabulary_size()} indices, output_mode={self.output_mode!r})"
