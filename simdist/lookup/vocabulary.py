"""A vocabulary: the tokens of a lookup in their order, and the special indices in front of them.

    index 0                  the mask token, where there is one and indices are the output
    then num_oov_indices     tokens that are not in the vocabulary (OOV: out of vocabulary)
    then                     the tokens

Taught in lesson 06.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simdist.arguments import listed_numbers, number, shown
from simdist.errors import InvalidArgumentError, NotFoundError

__all__ = ["SpecialTokens", "checked_tokens", "tokens_of_file"]

Token = Any  # str or int
SHOWN = 5


@dataclass(frozen=True)
class SpecialTokens:
    """What stands before the tokens.

    Args:
        mask_token: of index 0; None: there is none.
        oov_token: by which an inverted lookup shows all that is not in the vocabulary.
        num_oov_indices: indices for such tokens.
        masks: whether the mask token has an index; where tokens are counted, it has none.
    """

    mask_token: Token
    oov_token: Token
    num_oov_indices: int
    masks: bool

    @property
    def oov_start(self) -> int:
        """The first index of tokens that are not in the vocabulary."""
        return int(self.mask_token is not None and self.masks)

    @property
    def token_start(self) -> int:
        """The index of the first token."""
        return self.oov_start + self.num_oov_indices

    @property
    def in_front(self) -> list[Token]:
        """The special tokens in their order."""
        return [self.mask_token] * self.oov_start + [self.oov_token] * self.num_oov_indices


def checked_tokens(given: Sequence[Token], special: SpecialTokens, invert: bool, max_tokens: int | None) -> list[Token]:
    """The tokens of a vocabulary without the special ones, which may stand in front.

    Raises:
        InvalidArgumentError: it is empty, too large, repeats a token, or has a special one among the others.
    """
    if not len(given):
        raise InvalidArgumentError("the vocabulary is empty; expected at least one token; leave it out and call adapt(data)")
    front = special.in_front
    tokens = list(given[len(front) :]) if front and list(given[: len(front)]) == front else list(given)
    repeated = [token for token, count in Counter(tokens).items() if count > 1]
    if repeated:
        raise InvalidArgumentError(
            f"the vocabulary repeats {_listed(repeated)}; expected distinct tokens; use list(dict.fromkeys(vocabulary))"
        )
    for token, role in ((special.mask_token, "mask"), (special.oov_token if invert else None, "OOV")):
        if token is not None and token in tokens:
            raise InvalidArgumentError(
                f"the vocabulary has the {role} token {token!r} at position {list(given).index(token)}; expected special ones in front, in "
                f"this order: {front}; or leave them out"
            )
    size = special.token_start + len(tokens)
    if max_tokens is not None and size > max_tokens:
        raise InvalidArgumentError(
            f"the vocabulary has {size} entries with its {special.token_start} special ones, and max_tokens is {max_tokens}; "
            "give fewer tokens, or a larger max_tokens"
        )
    return tokens


def tokens_of_file(path: str | os.PathLike[str], encoding: str) -> list[str]:
    """The lines of a vocabulary file, without their line ends; empty lines at the end do not count.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it is a directory, or no path.
    """
    try:
        if "\0" in os.fspath(path) or Path(path).is_dir():
            raise InvalidArgumentError(f"vocabulary is {shown(path)}, which is no path of a file; pass a list for tokens")
        text = Path(path).read_bytes().decode(encoding)
    except FileNotFoundError:
        raise NotFoundError(f"there is no vocabulary file {os.fspath(path)!r}; expected one token a line; pass a list for tokens") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def padded_weights(weights: Any, given: int, tokens: int, special: SpecialTokens, depth: int | None) -> np.ndarray[Any, Any]:
    """One weight for each index: float32.

    Args:
        weights: as the user gave them.
        given: length of the vocabulary as the user gave it.
        tokens: how many of its entries are no special ones.
        special: what stands before the tokens.
        depth: to fill up to with zeros; None: no filling.

    Raises:
        InvalidArgumentError: not one weight for each entry of the vocabulary.
    """
    each = [number(weight, "a weight of idf_weights", -math.inf) for weight in listed_numbers(weights, "idf_weights")]
    array = np.array(each, np.float64)
    if array.shape != (given,):
        raise InvalidArgumentError(
            f"idf_weights has shape {array.shape}; expected one number for each of the {given} entries of the vocabulary"
        )
    if given == tokens:
        array = np.concatenate([np.full(special.token_start, array.mean()), array])
    if depth is not None:
        array = np.concatenate([array, np.zeros(depth - len(array))])
    return array.astype(np.float32)


def _listed(items: Sequence[Token]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(repr(item) for item in items[:SHOWN]) + more
