"""What `adapt` learns from data: how often each token occurs, and in how many documents.

A vocabulary has the most frequent tokens first; of equally frequent ones, the one that sorts last comes first, as in Keras.

Taught in lesson 06.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from simdist.arguments import whole_number
from simdist.data import Dataset
from simdist.data.leaves import Array
from simdist.errors import InvalidArgumentError

__all__ = ["TokenCounts", "batches_of"]

Token = Any  # str or int


class TokenCounts:
    """Tokens and documents that were counted.

    Args:
        by_document: whether to count the documents of each token, too.

    Example:
        >>> counts = TokenCounts(by_document=True)
        >>> counts.add([["d", "c", "d"], ["c", "e"]])
        >>> counts.vocabulary(exclude=(), most=None)
        ['d', 'c', 'e']
    """

    def __init__(self, by_document: bool) -> None:
        self.by_document = by_document
        self.num_documents = 0
        self._counts: Counter[Token] = Counter()
        self._documents: Counter[Token] = Counter()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, documents: Iterable[Sequence[Token]]) -> None:
        """Count the tokens of some documents."""
        for tokens in documents:
            self._counts.update(tokens)
            if self.by_document:
                self.num_documents += 1
                self._documents.update(set(tokens))

    def vocabulary(self, exclude: Collection[Token], most: int | None) -> list[Token]:
        """The tokens, the most frequent first.

        Args:
            exclude: tokens that have a place of their own.
            most: how many to keep; None: all.
        """
        tokens = sorted((token for token in self._counts if token not in exclude), reverse=True)
        tokens.sort(key=lambda token: -self._counts[token])
        return tokens if most is None else tokens[: max(most, 0)]

    def inverse_frequencies(self, tokens: Sequence[Token]) -> Array:
        """log(1 + documents / (1 + documents with the token)), for each token: float64."""
        documents = np.array([self._documents[token] for token in tokens], np.float64)
        return np.log(1 + self.num_documents / (1 + documents))


def batches_of(data: Any, steps: int | None, arrays: Callable[[Any], Array]) -> Iterator[Array]:
    """The batches that `adapt` counts, each an array of at least one axis.

    Args:
        data: an array or a list, whose items are documents; or a dataset or an iterable of batches.
        steps: number of batches of a dataset or an iterable; None: all.
        arrays: makes an array of what the user gave.

    Raises:
        InvalidArgumentError: a dataset without an end, or whose elements have several components.
    """
    if steps is not None:
        whole_number(steps, "steps", 1, sys.maxsize)
    if isinstance(data, Dataset) or (
        isinstance(data, Iterable) and not isinstance(data, (list, tuple, str, bytes)) and not hasattr(data, "dtype")
    ):
        if isinstance(data, Dataset) and steps is None and data.cardinality() == -1:
            raise InvalidArgumentError("adapt was given a dataset without an end; expected one that ends; pass steps=, or dataset.take(n)")
        for batch in islice(iter(data), steps):
            if isinstance(batch, (tuple, dict)):
                raise InvalidArgumentError(
                    f"adapt was given elements that are a {type(batch).__name__}; expected one component; choose it first: "
                    "dataset.map(lambda features, label: features)"
                )
            yield np.atleast_1d(arrays(batch))
        return
    array = np.atleast_1d(arrays(data))
    yield array[:, None] if array.ndim == 1 else array
