"""When a fault begins: at a virtual second, after some steps, or as soon as a predicate holds.

A trigger is a value: it says when, and `Faults` in schedule.py watches for it.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from simdist.arguments import python_number
from simdist.errors import InvalidArgumentError
from simdist.faults.parameters import Parameter, seconds, whole_number

__all__ = ["FIGURES", "Trigger"]


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

    at: float | None = field(default=None, metadata=seconds("a virtual second", optional=True))
    after_steps: int | None = field(default=None, metadata=whole_number("steps of the first task", at_least=1, optional=True))
    when: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("at", "after_steps"):
            object.__setattr__(self, name, python_number(getattr(self, name)))

    def describe(self) -> str:
        """As it was given; a predicate has no text."""
        if self.at is not None:
            return f"at={self.at}"
        return f"after_steps={self.after_steps}" if self.when is None else "when=..."

    def check(self, kind: str, now: float = 0.0) -> None:
        """Refuse a moment that is none.

        Args:
            kind: of the fault, for the message.
            now: virtual second; default 0, the beginning.

        Raises:
            InvalidArgumentError: not exactly one of the three, a time in the past or without an end, no whole number, or no function.
        """
        given = [value for value in (self.at, self.after_steps, self.when) if value is not None]
        if len(given) != 1:
            raise InvalidArgumentError(f"{kind} needs exactly one of at=, after_steps= and when=; got {len(given)} of them.")
        FIGURES["at"].checked("at", self.at, None)
        FIGURES["after_steps"].checked("after_steps", self.after_steps, None)
        if self.at is not None and self.at < now:
            raise InvalidArgumentError(f"at={self.at} s is in the past: it is {now:.6f} s now. Give a later second.")
        if self.when is not None and not callable(self.when):
            raise InvalidArgumentError(f"when={self.when!r} must be a function that takes the cluster and says whether it is time.")


FIGURES: dict[str, Parameter] = {item.name: item.metadata["parameter"] for item in fields(Trigger) if item.metadata}
"""The declarations of a trigger's figures."""
