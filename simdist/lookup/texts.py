"""From texts to tokens: texts are standardized, split, and their neighbouring tokens joined.

The letters that are lowered, the punctuation that is removed and the white space that separates are those of ASCII, as in TensorFlow. A
function of the user gets a numpy array of strings, of one axis, and gives one of the same length; a function that splits gives a list of
lists of tokens.

Taught in lesson 06.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdist.arguments import known_word
from simdist.data.leaves import Array
from simdist.errors import InvalidArgumentError

__all__ = ["SPLITS", "STANDARDS", "Tokens", "joined_neighbours", "known_choice", "ngram_widths", "split_texts", "standardized"]

Tokens = list[list[str]]  # of each text

LOWER = dict(zip(map(ord, string.ascii_uppercase), string.ascii_lowercase, strict=True))
NO_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
STANDARDS: dict[str, dict[int, Any]] = {
    "lower_and_strip_punctuation": {**LOWER, **NO_PUNCTUATION},
    "lower": LOWER,
    "strip_punctuation": NO_PUNCTUATION,
}
SPLITS: dict[str, Callable[[str], list[str]]] = {"whitespace": re.compile(r"[^ \t\n\r\x0b\x0c]+").findall, "character": list}


def known_choice(choice: Any, known: Sequence[str], name: str) -> Any:
    """None, a function, or one of the known words.

    Raises:
        InvalidArgumentError: it is something else.
    """
    return choice if choice is None or callable(choice) else known_word(choice, name, known)


def standardized(texts: list[str], how: Any) -> list[str]:
    """Texts after a standardization.

    Args:
        texts: the texts.
        how: a word of `STANDARDS`, a function, or None.

    Example:
        >>> standardized(["The cat, sat!"], "lower_and_strip_punctuation")
        ['the cat sat']
    """
    if how is None:
        return texts
    if not callable(how):
        table = STANDARDS[how]
        return [text.translate(table) for text in texts]
    found = np.asarray(how(np.array(texts, dtype=str)))
    if found.shape != (len(texts),) or found.dtype.kind not in "UT":
        raise InvalidArgumentError(
            f"standardize returned {found.dtype.name} of shape {found.shape} for {len(texts)} texts; expected one string for each; "
            "use functions of numpy.strings"
        )
    return found.tolist()


def split_texts(texts: list[str], how: Any) -> Tokens:
    """The tokens of each text.

    Args:
        texts: the texts.
        how: a word of `SPLITS`, or a function.

    Example:
        >>> split_texts([" a  b ", ""], "whitespace")
        [['a', 'b'], []]
    """
    if not callable(how):
        return list(map(SPLITS[how], texts))
    found: Any = how(np.array(texts, dtype=str))
    rows: Tokens = [np.asarray(row).astype(str).ravel().tolist() if len(row) else [] for row in found]
    if len(rows) != len(texts):
        raise InvalidArgumentError(f"split returned {len(rows)} rows for {len(texts)} texts; expected a list of tokens for each")
    return rows


def ngram_widths(ngrams: Any) -> tuple[int, ...] | None:
    """How many neighbouring tokens are joined: of an integer n, 1 to n.

    Raises:
        InvalidArgumentError: neither None, nor an integer, nor a tuple of integers, from 1.
    """
    if ngrams is None:
        return None
    given = ngrams if isinstance(ngrams, tuple) else tuple(range(1, ngrams + 1)) if isinstance(ngrams, int) else ()
    if not given or isinstance(ngrams, bool) or not all(isinstance(width, int) and width >= 1 for width in given):
        raise InvalidArgumentError(f"ngrams is {ngrams!r}; expected None, an integer of 1 or more, or a tuple of them")
    return given


def joined_neighbours(rows: Tokens, widths: tuple[int, ...]) -> Tokens:
    """For each width in turn, all runs of so many tokens, with spaces between them.

    Example:
        >>> joined_neighbours([["a", "b", "c"]], (1, 2))
        [['a', 'b', 'c', 'a b', 'b c']]
    """
    return [[" ".join(row[at : at + width]) for width in widths for at in range(len(row) - width + 1)] for row in rows]


def padded(flat: Array, lengths: Array, width: int) -> Array:
    """Rows of different lengths, one behind the other in `flat`, as one array of this width: cut, or filled up with zeros."""
    starts = np.cumsum(lengths) - lengths
    at = np.arange(width)
    inside = at < lengths[:, None]
    result = np.zeros((len(lengths), width), flat.dtype)
    result[inside] = flat[(starts[:, None] + at)[inside]]
    return result
