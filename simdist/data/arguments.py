"""Checks of the numbers that people give to a pipeline, with one message for all of them."""

from __future__ import annotations

import operator
from typing import Any

from simdist.errors import InvalidArgumentError

__all__ = ["whole_number"]


def whole_number(value: Any, name: str, at_least: int) -> int:
    """`value` as an int.

    Raises:
        TypeError: it is not an integer.
        InvalidArgumentError: it is too small.

    Example:
        >>> whole_number(3, "batch_size", 1)
        3
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected an integer; convert it with int() first") from None
    if number < at_least:
        raise InvalidArgumentError(f"{name} is {number}; expected at least {at_least}")
    return number
