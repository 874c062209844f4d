"""What lookup layers know: their arguments and their vocabulary, which is given or learnt.

Invariant: `state` is another one after each change of the vocabulary; mapped datasets recognise by it whether their rows still hold.

What may live in this file: arguments and vocabularies. How tokens are looked up is in `index_lookup.py`.

Taught in lesson 06.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Self, cast

from simdist.arguments import flag, shown, whole_number
from simdist.data.leaves import Array
from simdist.data.row_wise import RowWise
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.lookup.encodings import known_mode
from simdist.lookup.keys import IntegerKeys, TextKeys
from simdist.lookup.token_counts import TokenCounts, batches_of
from simdist.lookup.vocabulary import SpecialTokens, checked_tokens, padded_weights
from simdist.lookup.worker_copies import TableCopies
from simdist.variables.placement_record import PlacementRecord

__all__ = ["VocabularyLayer"]

MOST_OOV = 1 << 20  # indices; each has its token in the vocabulary

Token = Any  # str or int


class VocabularyLayer(RowWise):
    """Arguments and vocabulary of `StringLookup` and `IntegerLookup`; see there for the arguments."""

    def __init__(
        self,
        max_tokens: int | None,
        num_oov_indices: int,
        mask_token: Token,
        oov_token: Token,
        vocabulary: Any,
        idf_weights: Any,
        invert: bool,
        output_mode: str,
        sparse: bool,
        pad_to_max_tokens: bool,
        name: str | None,
    ) -> None:
        self.name = type(self).__name__ if name is None else str(name)
        if flag(sparse, "sparse"):
            raise InvalidArgumentError(
                f"{self.name} was given sparse=True; there are no sparse tensors here; leave it out: results are dense"
            )
        self.max_tokens = None if max_tokens is None else whole_number(max_tokens, "max_tokens", 2)
        self.invert, self.pad_to_max_tokens = flag(invert, "invert"), flag(pad_to_max_tokens, "pad_to_max_tokens")
        self.output_mode = known_mode(output_mode)
        self._check_modes(idf_weights)
        num_oov_indices = whole_number(num_oov_indices, "num_oov_indices", 0, MOST_OOV)
        self.special = SpecialTokens(mask_token, oov_token, num_oov_indices, self.output_mode == "int")
        if self.max_tokens is not None and self.max_tokens < self.special.token_start:
            raise InvalidArgumentError(
                f"max_tokens is {self.max_tokens} and the special tokens take {self.special.token_start} of them; expected as many; "
                "pass a larger max_tokens, or a smaller num_oov_indices"
            )
        self.idf_weights: Array | None = None
        self._keys: TextKeys | IntegerKeys | None = None
        self._fixed = vocabulary is not None
        self._counts = TokenCounts(self.output_mode == "tf_idf")
        self._state: Hashable = None
        self._copies = TableCopies(self.name, self._size)
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    def _check_modes(self, idf_weights: Any) -> None:
        if self.pad_to_max_tokens and self.max_tokens is None:
            raise InvalidArgumentError("pad_to_max_tokens is True and max_tokens is None; expected the length to pad to; pass max_tokens=")
        if self.invert and self.output_mode != "int":
            raise InvalidArgumentError(f"invert is True with output_mode={self.output_mode!r}; expected 'int', as indices become tokens")
        if idf_weights is not None and self.output_mode != "tf_idf":
            raise InvalidArgumentError(
                f"idf_weights was given with output_mode={self.output_mode!r}; expected 'tf_idf'; leave the weights out"
            )

    # -- what the kind of token decides ---------------------------------------------------------------------------

    @abstractmethod
    def _tokens_of(self, values: Any) -> Any:
        """Tokens that a user gave, as an array."""

    @abstractmethod
    def _listed(self, vocabulary: Any) -> list[Token]:
        """A vocabulary that a user gave, an array, a list or a path, as a list of tokens."""

    @abstractmethod
    def _indexed(self, tokens: Sequence[Token]) -> TextKeys | IntegerKeys:
        """The positions of tokens."""

    # -- vocabulary -----------------------------------------------------------------------------------------------

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Replace the vocabulary.

        Args:
            vocabulary: distinct tokens, as a list or an array with or without the special tokens in front; or the path of a file with
                one token a line.
            idf_weights: one weight for each of them, for "tf_idf" and no other mode.

        Raises:
            InvalidArgumentError: repeated tokens, too many, or weights that do not fit.
            NotFoundError: no such file.
            FailedPreconditionError: another size, where rows of the old size were promised.
        """
        if (idf_weights is not None) != (self.output_mode == "tf_idf"):
            raise InvalidArgumentError(
                f"idf_weights is {'missing' if idf_weights is None else 'given'} with output_mode={self.output_mode!r}; "
                "expected one weight for each token with 'tf_idf', and none otherwise"
            )
        given = self._listed(vocabulary)
        tokens = checked_tokens(given, self.special, self.invert, self.max_tokens)
        weights = None
        if idf_weights is not None:
            depth = self.max_tokens if self.pad_to_max_tokens else None
            weights = padded_weights(idf_weights, len(given), len(tokens), self.special, depth)
        self._settle(tokens, weights)

    def _settle(self, tokens: list[Token], weights: Array | None) -> None:
        keys = self._indexed(tokens)
        if self._keys is not None and len(keys) != len(self._keys) and self.output_mode != "int" and not self.pad_to_max_tokens:
            raise FailedPreconditionError(
                f"the vocabulary of {self.name} had {len(self._keys)} tokens and would have {len(keys)}, so that rows of output_mode="
                f"{self.output_mode!r} changed their length; make another lookup, or pass max_tokens= and pad_to_max_tokens=True"
            )
        self._keys, self.idf_weights = keys, weights
        facts = (
            type(self).__name__,
            tokens,
            self.special,
            self.max_tokens,
            self.invert,
            self.output_mode,
            self.pad_to_max_tokens,
            self._extra(),
        )
        digest = hashlib.blake2b(repr(facts).encode("utf-8", "surrogatepass"), digest_size=16)
        digest.update(b"" if weights is None else weights.tobytes())
        self._state = ("lookup", digest.hexdigest())
        self._copies.filled()

    def _extra(self) -> Hashable:
        """Further arguments on which results depend."""
        return None

    @property
    def state(self) -> Hashable:
        return self._state

    def adapt(self, data: Any, steps: int | None = None) -> None:
        """Learn the vocabulary from data: the most frequent tokens first.

        Args:
            data: an array or list of tokens, whose items count as documents; or a dataset or an iterable of batches.
            steps: number of batches of a dataset; None: all.

        Raises:
            InvalidArgumentError: the vocabulary was given when the lookup was made.
        """
        self.adapt_documents(batches_of(data, steps, self._tokens_of))

    def adapt_documents(self, batches: Any) -> None:
        """Learn from batches: an array whose rows are documents (one of a single axis is one), or a list of lists of tokens."""
        if self._fixed:
            raise InvalidArgumentError(
                f"adapt was called on {self.name}, whose vocabulary was given; leave out vocabulary=, or do not adapt"
            )
        counts = TokenCounts(self.output_mode == "tf_idf")
        for batch in batches:
            if isinstance(batch, list):
                counts.add(batch)
            else:
                counts.add((batch[None] if batch.ndim == 1 else batch.reshape(len(batch), math.prod(batch.shape[1:]))).tolist())
        start = self.special.token_start
        tokens = counts.vocabulary(
            (self.special.mask_token, self.special.oov_token), None if self.max_tokens is None else self.max_tokens - start
        )
        if not len(counts):
            return
        if not tokens and self.output_mode == "tf_idf":
            raise InvalidArgumentError(
                f"{self.name} learnt no token but special ones, so there is no weight for them; expected at least one other token; pass a "
                "larger max_tokens, or data with more tokens"
            )
        weights = None
        if self.output_mode == "tf_idf":
            depth = self.max_tokens if self.pad_to_max_tokens else None
            weights = padded_weights(counts.inverse_frequencies(tokens), len(tokens), len(tokens), self.special, depth)
        self._settle(tokens, weights)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Token]:
        """The tokens; with the special ones in front, each at its index."""
        tokens = [] if self._keys is None else list(self._keys.keys)
        return self.special.in_front + tokens if flag(include_special_tokens, "include_special_tokens") else tokens

    def vocabulary_size(self) -> int:
        """The number of indices, those of special tokens included."""
        return self.special.token_start + (0 if self._keys is None else len(self._keys))

    # -- as data, and where it lies -------------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal lookup: ``type(lookup).from_config(config)``."""
        special = self.special
        return {
            "name": self.name,
            "max_tokens": self.max_tokens,
            "num_oov_indices": special.num_oov_indices,
            "mask_token": special.mask_token,
            "oov_token": special.oov_token,
            "vocabulary": self.get_vocabulary() if self._keys is not None else None,
            "idf_weights": self._given_weights(),
            "invert": self.invert,
            "output_mode": self.output_mode,
            "pad_to_max_tokens": self.pad_to_max_tokens,
        }

    def _given_weights(self) -> list[float] | None:
        """The weights that `set_vocabulary` takes with the special tokens in front."""
        return None if self.idf_weights is None else self.idf_weights[: self.vocabulary_size()].tolist()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The lookup that `get_config` was called on."""
        if not isinstance(cast("object", config), dict):
            raise TypeError(f"config is {shown(config)}; expected the dict of get_config()")
        return cls(**config)

    def placements(self) -> list[PlacementRecord]:
        """Which tasks hold a copy of the table: of one made in the scope of parameter servers, every worker that is up; else none."""
        return self._copies.placements()

    def _size(self) -> tuple[int, int]:
        """Entries, and bytes of tokens and indices."""
        return (0, 0) if self._keys is None else (len(self._keys), self._keys.size_bytes + 8 * len(self._keys))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.vocabulary_size()} indices, output_mode={self.output_mode!r})"
