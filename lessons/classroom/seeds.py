"""`checked_seed`: the seed of a stream of random moments, as numpy takes it."""

from __future__ import annotations

from typing import Any

from classroom.values import described, plain
from simdist.errors import InvalidArgumentError

__all__ = ["checked_seed"]


def checked_seed(seed: Any) -> int:
    """A seed, if it is one.

    Raises:
        InvalidArgumentError: it is no whole number from 0.

    Example:
        >>> checked_seed(7)
        7
    """
    value = plain(seed)
    if type(value) is not int or value < 0:
        raise InvalidArgumentError(f"{described(seed)} is no seed: give a whole number from 0.")
    return value
