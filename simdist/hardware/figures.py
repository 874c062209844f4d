"""Figures: what a number has to be before it may describe a machine.

Every figure is in base units (operations per second, bytes, bytes per second, seconds). Rates and sizes are positive, and
may be infinite: an infinitely fast machine costs nothing. Waiting times are 0 or more, and finite: a wait without an end is
a hang. Models keep them as numbers of Python: times have 64 bits, whatever library a figure came from.
"""

from __future__ import annotations

import math
from numbers import Integral, Real

from simdist.arguments import END_S, float_of, python_number
from simdist.errors import InvalidArgumentError

__all__ = ["check_figure", "check_name", "check_whole", "keep_figures"]

LEAST = 1 / END_S
"""Of rates and sizes: with less, even one byte would come after the end of the clock."""


def check_figure(owner: str, name: str, value: object, *, may_be_zero: bool = False) -> None:
    """Refuse what is no number, not a number, or too small.

    Args:
        owner: what the figure belongs to, for the message.
        name: of the figure.
        value: the figure.
        may_be_zero: whether 0 makes sense, as it does for a waiting time, which then has to end.

    Raises:
        TypeError: if it is no number.
        InvalidArgumentError: if it is negative, NaN, 0 or next to 0 where that makes no sense, or without an end where 0 does.

    Example:
        >>> check_figure("Device", "launch_overhead", 0.0, may_be_zero=True)
        >>> check_figure("Device", "flops", 0.0)
        Traceback (most recent call last):
        simdist.errors.InvalidArgumentError: Device: flops must be more than 0; got 0.0.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{owner}: {name} must be a number; got {value!r}.")
    found = float_of(value)
    if not (0.0 <= found < END_S if may_be_zero else found >= LEAST):
        expected = f"0 or more, and less than {END_S:g}" if may_be_zero else f"more than 0{f', {LEAST:g} or more' if found > 0 else ''}"
        raise InvalidArgumentError(f"{owner}: {name} must be {expected}; got {value!r}.")


def keep_figures(model: object, *names: str, owner: str = "", may_be_zero: bool = False) -> None:
    """Check figures of a frozen model, and keep them as numbers of Python; one that is larger than all floats is infinite.

    Args:
        model: a dataclass that is being made.
        names: of the figures.
        owner: what the message calls the model; default its class.
        may_be_zero: as of `check_figure`.

    Raises:
        As `check_figure`.
    """
    for name in names:
        value = getattr(model, name)
        check_figure(owner or type(model).__name__, name, value, may_be_zero=may_be_zero)
        kept = math.inf if float_of(value) == math.inf else python_number(value)
        object.__setattr__(model, name, abs(kept))  # -0.0 is 0.0: libraries of random numbers refuse the other one


def check_name(model: object) -> None:
    """Refuse a name that is no text.

    Args:
        model: has a `name`, which pictures and messages call it.

    Raises:
        TypeError: it is something else.
    """
    name = getattr(model, "name")  # noqa: B009
    if not isinstance(name, str):
        raise TypeError(f"{type(model).__name__}: name must be text; got {name!r}.")


def check_whole(owner: str, name: str, value: object) -> int:
    """A whole number of 1 or more as one of Python: those of other libraries have an end, and begin anew behind it.

    Raises:
        TypeError: if it is no whole number.
        InvalidArgumentError: if it is less than 1.

    Example:
        >>> check_whole("Racks", "tasks_per_rack", 4)
        4
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{owner}: {name} must be a whole number; got {value!r}.")
    found = int(value)
    if found < 1:
        raise InvalidArgumentError(f"{owner}: {name} must be 1 or more; got {value!r}.")
    return found
