"""Checks of arguments: numbers and nestings, with one message for all of them."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

from simdist.errors import InvalidArgumentError

__all__ = ["END_S", "flag", "number", "optional_flag", "require_arguments", "require_shallow", "whole_number"]

END_S = 1e15
"""Virtual seconds after which nothing can be due; below it, a heartbeat's second still moves a clock of 64 bits."""

MOST_LEVELS = 100


def whole_number(value: Any, name: str, at_least: float = -math.inf) -> int:
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


def optional_flag(value: Any, name: str) -> bool | None:
    """`value` as a bool, or None.

    Raises:
        TypeError: it is neither True, False nor None.

    Example:
        >>> optional_flag(None, "pure") is None
        True
    """
    return None if value is None else flag(value, name)


def number(value: Any, name: str, at_least: float = 0.0, below: float = math.inf) -> float:
    """`value` as a finite float.

    Raises:
        TypeError: it is no number.
        InvalidArgumentError: it is too small, too large, infinite or NaN.

    Example:
        >>> number(3, "seconds")
        3.0
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}; expected a number")
    found = float(value)
    if not at_least <= found < below:
        limit = "" if below == math.inf else f", and less than {below:g}"
        raise InvalidArgumentError(f"{name}={value!r} must be a finite number, {at_least:g} or more{limit}")
    return found


def require_shallow(value: Any, what: str, nests: tuple[type, ...] = (tuple, list, dict)) -> None:
    """Refuse a structure that is nested so deeply that taking it apart would exhaust the interpreter's stack.

    To be asked before JAX is: its flattening fails half-way there, and the process stays short of stack afterwards.

    Args:
        value: the structure.
        what: what it is, for the message.
        nests: the types of which it is made.

    Raises:
        InvalidArgumentError: there are more than a hundred levels.
    """
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [part for item in level if isinstance(item, nests) for part in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return
    raise InvalidArgumentError(f"{what} are nested more than {MOST_LEVELS} levels deep; expected a few levels of tuples and dicts")


def require_arguments(args: Any, kwargs: Any, of: str) -> None:
    """Refuse what cannot be the arguments of a call.

    Args:
        args: should be a list or a tuple.
        kwargs: should be a dict, or None.
        of: what is called, for the message.

    Raises:
        InvalidArgumentError: they are not, or are nested too deeply.

    Example:
        >>> require_arguments((1, 2), None, "strategy.run")
    """
    if not isinstance(args, (list, tuple)):
        raise InvalidArgumentError(f"args must be a list or tuple of the arguments; got {type(args).__name__}. Write args=(x,).")
    if not isinstance(kwargs, (dict, type(None))):
        raise InvalidArgumentError(f"kwargs must be a dict from name to argument; got {type(kwargs).__name__}. Write kwargs={{'x': x}}.")
    require_shallow((args, kwargs), f"the arguments of {of}")
