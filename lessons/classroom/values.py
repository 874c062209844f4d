"""What a student gave, as a plain value and in words, whatever it is.

Every function here is safe for every object: for one whose comparison, length or text raises an error, for numbers of a million
digits, for arrays. `plain` turns other numbers (of numpy and JAX, fractions, decimals) into Python's own, so that checks compare
plain values only.
"""

from __future__ import annotations

import math
import textwrap
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["Plain", "described", "listed", "plain", "shown", "wrapped"]

Plain = bool | int | float | str | list["Plain"]

LONGEST_TEXT = 60  # characters of an answer that a message repeats
LONGEST_LIST = 100  # items that are looked at
LINE = 92  # columns that JupyterLab shows in one line
ARTICLES = {"int": "the number", "float": "the number", "str": "the text", "bool": "the truth value"}


def plain(answer: Any) -> Plain | None:
    """An answer as Python's own bool, int, float, str, or a list of these; None if it is something else.

    Example:
        >>> plain(np.float32(0.5)), plain(np.array(3)), plain(("ring", 2))
        (0.5, 3, ['ring', 2])
        >>> plain(Fraction(40, 2)), plain(Decimal("2.5"))
        (20.0, 2.5)
        >>> plain(np.zeros(3)), plain(None), plain(print)
        (None, None, None)
    """
    if type(answer) in (bool, int, float, str):
        return answer
    try:
        if isinstance(answer, (list, tuple)):
            if len(answer) > LONGEST_LIST:
                return None
            items = [plain(item) for item in answer]
            return None if any(item is None for item in items) else [item for item in items if item is not None]
        if isinstance(answer, np.generic) or getattr(answer, "shape", None) == ():
            item = answer.item()
            return item if type(item) in (bool, int, float, str) else None
        if isinstance(answer, (Fraction, Decimal)):
            return float(answer)
    except Exception:  # an object that raises when it is asked is none of these
        return None
    return None


def listed(answer: Any) -> list[Plain] | None:
    """The items of a list, a tuple or an array with one axis, as plain values; None if it is something else.

    Example:
        >>> listed(np.array([1, 2])), listed((3, "ring")), listed(np.zeros((2, 2))), listed({1})
        ([1, 2], [3, 'ring'], None, None)
    """
    try:
        items = answer.tolist() if getattr(answer, "ndim", None) == 1 and len(answer) <= LONGEST_LIST else answer
    except Exception:  # an object that raises when it is asked
        return None
    value = plain(items)
    return value if isinstance(value, list) else None


def shown(answer: Any) -> str:
    """The answer as it would be typed, in one short line.

    Example:
        >>> shown([1, 2]), shown("x" * 100)[-4:]
        ('[1, 2]', ' ...')
    """
    try:
        if isinstance(answer, int) and not -(10**30) < answer < 10**30:
            return f"{'below -' if answer < 0 else 'above '}10**30"
        if isinstance(answer, (str, bytes)):
            answer = answer[: 2 * LONGEST_TEXT]
        elif isinstance(answer, (list, tuple, dict, set, frozenset)) and len(answer) > LONGEST_LIST:
            return f"of {len(answer):,} items"
        value = plain(answer)
        if isinstance(value, list) and isinstance(answer, tuple):
            value = tuple(value)
        text = repr(answer if value is None else value)
    except Exception:
        return "(it cannot be printed)"
    return textwrap.shorten(text, LONGEST_TEXT, placeholder=" ...") if " " in text else text[:LONGEST_TEXT] + " ..." * (len(text) > 60)


def described(answer: Any) -> str:
    """What was given, as the subject or object of a sentence.

    Example:
        >>> described("12"), described(None), described(np.zeros(3)), described(described)
        ("the text '12'", 'None', 'an array of shape (3,)', 'the function described')
        >>> described(float("nan"))
        'NaN (not a number)'
    """
    try:
        value = plain(answer)
        if isinstance(value, float) and math.isnan(value):
            return "NaN (not a number)"
        if value is not None and not isinstance(value, list):
            return f"{ARTICLES[type(value).__name__]} {shown(value)}"
        if answer is None:
            return "None"
        if callable(answer):
            return f"the {'class' if isinstance(answer, type) else 'function'} {getattr(answer, '__name__', type(answer).__name__)}"
        if isinstance(getattr(answer, "shape", None), tuple):
            return f"an array of shape {answer.shape}"
        return f"the {type(answer).__name__} {shown(answer)}"
    except Exception:
        return "an object that cannot be printed"


def wrapped(text: str) -> str:
    """A text in lines that JupyterLab need not break, with its own line breaks kept."""
    lines = [textwrap.fill(line, LINE, break_long_words=False, break_on_hyphens=False) for line in text.splitlines()]
    return "\n".join(lines)
