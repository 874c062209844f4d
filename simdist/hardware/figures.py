"""Figures: what a number has to be before it may describe a machine.

Every figure is in base units (operations per second, bytes, bytes per second, seconds). Rates and sizes are positive,
waiting times are 0 or more, and infinity is allowed: an infinitely fast machine costs nothing. Only checks live here.
"""

from __future__ import annotations

import math
from numbers import Real

from simdist.errors import InvalidArgumentError

__all__ = ["check_figure", "check_whole"]


def check_figure(owner: str, name: str, value: object, *, may_be_zero: bool = False) -> None:
    """Refuse what is no number, not a number, or too small.

    Args:
        owner: what the figure belongs to, for the message.
        name: of the figure.
        value: the figure.
        may_be_zero: whether 0 makes sense.

    Raises:
        TypeError: if it is no number.
        InvalidArgumentError: if it is negative, NaN, or 0 where that makes no sense.

    Example:
        >>> check_figure("Device", "launch_overhead", 0.0, may_be_zero=True)
        >>> check_figure("Device", "flops", 0.0)
        Traceback (most recent call last):
        simdist.errors.InvalidArgumentError: Device: flops must be more than 0; got 0.0.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{owner}: {name} must be a number; got {value!r}.")
    if math.isnan(value) or float(value) < 0 or (value == 0 and not may_be_zero):
        expected = "0 or more" if may_be_zero else "more than 0"
        raise InvalidArgumentError(f"{owner}: {name} must be {expected}; got {value!r}.")


def check_whole(owner: str, name: str, value: object) -> None:
    """Refuse what is no whole number of 1 or more.

    Raises:
        TypeError: if it is no whole number.
        InvalidArgumentError: if it is less than 1.

    Example:
        >>> check_whole("Racks", "tasks_per_rack", 4)
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{owner}: {name} must be a whole number; got {value!r}.")
    if value < 1:
        raise InvalidArgumentError(f"{owner}: {name} must be 1 or more; got {value!r}.")
