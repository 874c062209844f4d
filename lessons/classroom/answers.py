"""Checks that exercises share. Each takes an answer of any kind and returns None, or a sentence that says what is wrong.

A check first looks at the kind of the answer (a whole number in a range, a number of some unit, a function, one of some words) and
says what is expected instead; then it hands a plain Python value to `then`, which says what is wrong with that value. So a `then`
need not fear arrays, NaN or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from classroom.exercise import Check
from classroom.values import described, plain

__all__ = ["a_function", "a_number", "a_whole_number", "lowered", "near", "one_of"]

HUGE = 1e300  # below it, sums and products of floats stay finite


def a_whole_number(least: int, most: int, then: Callable[[int], str | None]) -> Check:
    """A check for a whole number in a range; 15.0 counts as 15, and True as no number.

    Example:
        >>> check = a_whole_number(1, 60, lambda steps: None if steps == 15 else f"{steps} is too many or too few.")
        >>> check(15), check(16), check(61)
        (None, '16 is too many or too few.', 'the number 61 is not in the range: give a whole number from 1 to 60.')
        >>> check("15")
        "the text '15' is not a whole number: give one from 1 to 60, without quotes."
    """

    def check(answer: Any) -> str | None:
        value = plain(answer)
        wanted = f"from {least:,} to {most:,}"
        if type(value) not in (int, float) or (isinstance(value, float) and not value.is_integer()):
            quotes = ", without quotes" if isinstance(value, str) else ""
            return f"{described(answer)} is not a whole number: give one {wanted}{quotes}."
        if not least <= value <= most:
            return f"{described(answer)} is not in the range: give a whole number {wanted}."
        return then(int(value))

    return check


def a_number(unit: str, then: Callable[[float], str | None], least: float = -HUGE, most: float = HUGE) -> Check:
    """A check for a finite number of a unit, in a range.

    Example:
        >>> a_number("seconds", lambda seconds: None, least=0)("2 s")
        "the text '2 s' is not a number of seconds: give the number alone, without quotes."
    """

    def check(answer: Any) -> str | None:
        value = plain(answer)
        if isinstance(value, str):
            return f"{described(answer)} is not a number of {unit}: give the number alone, without quotes."
        if isinstance(value, bool) or not isinstance(value, (int, float)) or (isinstance(value, float) and not math.isfinite(value)):
            return f"{described(answer)} is not a number of {unit}: give one, such as 12.5."
        if not least <= value <= most:
            limits = [f"at least {least:,g}"] * (least > -HUGE) + [f"at most {most:,g}"] * (most < HUGE) or ["a smaller number of"]
            return f"{described(answer)} is not in the range: give {' and '.join(limits)} {unit}."
        return then(float(value))

    return check


def near(expected: float, unit: str, relative: float = 0.005) -> Check:
    """A check for a number: right if it is close to what is expected, else whether it is too large or too small.

    Args:
        expected: the right number.
        unit: of the number.
        relative: how far it may be away, as a part of the right one.

    Example:
        >>> near(100, "bytes")(120), near(100, "bytes")(100.2)
        ('120 bytes is too large.', None)
    """

    def compared(value: float) -> str | None:
        if abs(value - expected) <= relative * abs(expected):
            return None
        large = value > expected
        return f"{value:,g} {unit} is too {'large' if large else 'small'}."

    return a_number(unit, compared)


def a_function(of: str, then: Callable[[Callable[..., Any]], str | None]) -> Check:
    """A check for a function; an error that it raises is reported by the exercise, with the line.

    Args:
        of: what the function takes and returns, for the message.
        then: takes the function. If that returns `...`, it has no body yet: raise `NotAnswered`, and the exercise prints its task.

    Example:
        >>> a_function("of a list of losses", lambda function: None)(0.2)
        'the number 0.2 cannot be called: give a function of a list of losses.'
    """

    def check(answer: Any) -> str | None:
        return then(answer) if callable(answer) else f"{described(answer)} cannot be called: give a function {of}."

    return check


def lowered(answer: Any) -> str | None:
    """A text in small letters, without spaces around it; None if the answer is no text.

    Example:
        >>> lowered(" Read "), lowered(3)
        ('read', None)
    """
    value = plain(answer)
    return value.strip().lower() if isinstance(value, str) else None


def one_of(options: Sequence[str], then: Callable[[str], str | None]) -> Check:
    """A check for one of some words; capitals and spaces around it do not matter.

    Example:
        >>> check = one_of(["read", "compute"], lambda word: None if word == "read" else f"{word} takes less.")
        >>> check(" Read "), check("compute"), check("wait")
        (None, 'compute takes less.', "the text 'wait' is none of: 'read', 'compute'.")
    """

    def check(answer: Any) -> str | None:
        word = lowered(answer)
        known = {option.lower(): option for option in options}
        if word not in known:
            return f"{described(answer)} is none of: {', '.join(map(repr, options))}."
        return then(known[word])

    return check
