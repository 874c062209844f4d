"""When a fault begins: at a virtual second, after some steps, or as soon as a predicate holds.

A trigger is a value: it says when, and `Faults` in plan.py watches for it. `END_S` bounds every second that is given.

Taught in lesson 01.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from simdist.arguments import END_S
from simdist.errors import InvalidArgumentError

__all__ = ["Trigger", "require_factor", "require_seconds"]


@dataclass(frozen=True)
class Trigger:
    """The moment at which a fault begins: exactly one of the three.

    Args:
        at: virtual second.
        after_steps: how many steps of the fault's first task; of a parameter server: updates.
        when: predicate of the cluster, asked whenever a step or an update of a server ends. It may look, but not wait.

    Example:
        >>> Trigger(after_steps=25).describe()
        'after_steps=25'
    """

    at: float | None = None
    after_steps: int | None = None
    when: Callable[[Any], Any] | None = None

    def describe(self) -> str:
        """As it was given; a predicate has no text."""
        if self.at is not None:
            return f"at={self.at}"
        return f"after_steps={self.after_steps}" if self.when is None else "when=..."

    def check(self, kind: str, now: float) -> None:
        """Refuse a moment that is none.

        Args:
            kind: of the fault, for the message.
            now: virtual second.

        Raises:
            InvalidArgumentError: not exactly one of the three, a time in the past or without an end, no whole number, or no function.
        """
        given = [value for value in (self.at, self.after_steps, self.when) if value is not None]
        if len(given) != 1:
            raise InvalidArgumentError(f"{kind} needs exactly one of at=, after_steps= and when=; got {len(given)} of them.")
        if self.at is not None:
            require_seconds("at", self.at, "a virtual second")
            if self.at < now:
                raise InvalidArgumentError(f"at={self.at} s is in the past: it is {now:.6f} s now. Give a later second.")
        steps: Any = self.after_steps
        if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
            raise InvalidArgumentError(f"after_steps={steps!r} must be a whole number of 1 or more.")
        if self.when is not None and not callable(self.when):
            raise InvalidArgumentError(f"when={self.when!r} must be a function that takes the cluster and says whether it is time.")


def require_seconds(name: str, value: Any, expected: str) -> None:
    """Refuse what is no number of seconds, is negative, or lies beyond the end of the clock.

    Raises:
        InvalidArgumentError: it does.
    """
    if not _is_number(value) or not 0 <= value < END_S:
        raise InvalidArgumentError(f"{name}={value!r} must be 0 or more, and less than {END_S:g}: {expected}.")


def require_factor(value: Any) -> float:
    """A factor on the time of what a task computes.

    Raises:
        InvalidArgumentError: it is no positive, finite number.
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise InvalidArgumentError(f"factor={value!r} must be a positive, finite number; 2.0 means half as fast.")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and value is not True and value is not False
