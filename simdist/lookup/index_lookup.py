"""The idea of a lookup layer: tokens become indices, or indices tokens.

`StringLookup` and `IntegerLookup` say what their tokens are; all else is here and in `vocabulary_layer.py`. A lookup is called with arrays,
inside a dataset's map, and, where tokens are integers, inside a step.

Invariant: the index of a token depends on the arguments and on the vocabulary, and is the same in every process.

Taught in lesson 06.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np

from simdist.data.leaves import Array
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.lookup.encodings import DROPPED, encoded
from simdist.lookup.keys import ABSENT, IntegerKeys, TextKeys
from simdist.lookup.values import integers_of, is_row_block, is_traced
from simdist.lookup.vocabulary_layer import VocabularyLayer
from simdist.program.narrowing import kept_dtype

__all__ = ["IndexLookup"]

SHOWN = 5


class IndexLookup(VocabularyLayer):
    """What `StringLookup` and `IntegerLookup` have in common; see there for the arguments."""

    @abstractmethod
    def _buckets(self, values: Any, absent: Any) -> Any:
        """For each value that is absent, its OOV bucket from 0; anything for all others."""

    @abstractmethod
    def _shown(self, positions: Any, masked: Any) -> Any:
        """The token at each position; the mask token where `masked`, the OOV token where there is none."""

    def __call__(self, inputs: Any) -> Any:
        """Look up.

        Args:
            inputs: tokens of any shape; indices where `invert`.

        Returns:
            A numpy array, int32 unless x64 is on: indices of that shape for "int", or what the output mode says; float32 for "tf_idf";
            tokens where `invert`. In a step, a value of the step.

        Raises:
            TypeError: tokens of another kind.
            InvalidArgumentError: a token that is not in the vocabulary, where `num_oov_indices` is 0; strings in a step.
            FailedPreconditionError: there is no vocabulary yet.
        """
        if is_row_block(inputs):
            self.note_call()
            return inputs.given_to(self)
        values = integers_of(inputs, self.name) if self.invert else self._tokens_of(inputs)
        self.note_call()
        found, failed = self._found(values, 0)
        if failed is not None:
            self._refuse_unknown(np.asarray(values), failed)
        return found

    def of_rows(self, rows: Array) -> tuple[Array, Array | None]:
        values = integers_of(rows, self.name) if self.invert else self._tokens_of(rows)
        found, failed = self._found(values, 1)
        if failed is None:
            return found, None
        return found, failed.reshape(len(failed), -1).any(axis=1)

    def _found(self, values: Any, lead: int) -> tuple[Any, Any]:
        """The results, and where a token is not in a vocabulary without OOV indices (None: nowhere)."""
        if self.invert:
            self._require_keys()
            positions = values - self.special.token_start
            return self._shown(positions, (values == 0) & bool(self.special.oov_start)), None
        indices, failed = self._indices(values)
        if self.output_mode == "int":
            return indices.astype(kept_dtype("int64")), failed
        return encoded(indices, self.output_mode, self.depth, self.idf_weights, lead), failed

    @property
    def depth(self) -> int:
        """The length of a row, where the output mode is not "int"."""
        return self.max_tokens if self.pad_to_max_tokens and self.max_tokens is not None else self.vocabulary_size()

    def indices_of(self, values: Array) -> Array:
        """Indices of tokens, before any output mode: int64 of the same shape."""
        found, failed = self._indices(values)
        if failed is not None:
            self._refuse_unknown(values, failed)
        return found

    def _indices(self, values: Any) -> tuple[Any, Any]:
        positions = self._require_keys().positions(values)
        absent, masked = positions == ABSENT, None
        if self.special.mask_token is not None:
            masked = values == self.special.mask_token
            absent &= ~masked
        indices, failed = positions + self.special.token_start, None
        if not self.special.num_oov_indices:
            failed = self._unknown(absent)
        elif is_traced(values) or absent.any():
            buckets = 0 if self.special.num_oov_indices == 1 else self._buckets(values, absent)
            indices = _where(absent, buckets + self.special.oov_start, indices)
        return indices if masked is None else _where(masked, 0 if self.special.masks else DROPPED, indices), failed

    def _unknown(self, absent: Any) -> Array | None:
        """Where tokens are unknown that must not be; None: nowhere."""
        if is_traced(absent):
            raise InvalidArgumentError(
                f"{self.name} was called in a step and has num_oov_indices=0: an unknown token is an error, which no step can raise; "
                "look up in the dataset, dataset.map(lambda ...: lookup(...)), or use num_oov_indices=1"
            )
        return absent if absent.any() else None

    def _refuse_unknown(self, values: Array, unknown: Array) -> NoReturn:
        words = list(dict.fromkeys(np.asarray(values)[unknown].tolist()))
        more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
        raise InvalidArgumentError(
            f"{self.name} was given {', '.join(map(repr, words[:SHOWN]))}{more}, not in its vocabulary; expected known tokens only, as "
            "num_oov_indices is 0; add them to the vocabulary, or pass num_oov_indices=1"
        )

    def _require_keys(self) -> TextKeys | IntegerKeys:
        if self._keys is None:
            raise FailedPreconditionError(
                f"{self.name} has no vocabulary yet; pass vocabulary=, or call set_vocabulary(...) or adapt(data) first"
            )
        return self._keys


def _where(condition: Any, then: Any, otherwise: Any) -> Any:
    if any(map(is_traced, (condition, then, otherwise))):
        return jnp.where(condition, then, otherwise)
    return np.where(condition, then, otherwise)
