"""Checks of the numbers and nestings that people give, with one message for all of them."""

from __future__ import annotations

import operator
from typing import Any

from simdist.errors import InvalidArgumentError

__all__ = ["flag", "too_deep", "whole_number"]


def whole_number(value: Any, name: str, at_least: int) -> int:
    """`value` as an int; True and False are no numbers.

    Raises:
        TypeError: it is not an integer.
        InvalidArgumentError: it is too small.

    Example:
        >>> whole_number(3, "batch_size", 1)
        3
    """
    try:
        if str(getattr(value, "dtype", type(value).__name__)) == "bool":
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected an integer; convert it with int() first") from None
    if number < at_least:
        raise InvalidArgumentError(f"{name} is {number}; expected at least {at_least}")
    return number


def flag(value: Any, name: str) -> bool:
    """`value` as a bool; a word or a number is none.

    Raises:
        TypeError: it is neither True nor False.

    Example:
        >>> flag(True, "drop_remainder")
        True
    """
    if str(getattr(value, "dtype", type(value).__name__)) != "bool" or getattr(value, "shape", ()):
        raise TypeError(f"{name} is {value!r}; expected True or False")
    return bool(value)


def too_deep(what: str) -> InvalidArgumentError:
    """The error for a structure that is nested deeper than anybody can take apart."""
    return InvalidArgumentError(f"{what} are nested too deeply to be taken apart; expected a few levels of tuples and dicts; flatten them")
