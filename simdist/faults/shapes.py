"""What many kinds of faults have in common: one task that they hit, an end at which they heal, the messages of one direction.

A kind takes from here what fits, and adds its own parameters. Another target (a disk) or another course is another shape.

Taught in lesson 01.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from simdist.errors import InvalidArgumentError
from simdist.faults import parameters as declare
from simdist.faults.base import Fault
from simdist.faults.effects import Effects, Heal

__all__ = ["DirectedFault", "LastingFault", "TaskFault", "all_of", "names_of", "shown"]


@dataclass(eq=False)
class TaskFault(Fault):
    """A fault of one task.

    Args:
        task: "worker:1", "ps:0" or "chief:0" ("chief" for short).
    """

    task: str = field(metadata=declare.task("whom it hits"))

    @property
    def tasks(self) -> tuple[str, ...]:
        return (self.task,)


@dataclass(eq=False)
class LastingFault(Fault):
    """A fault that lasts for a while; the trace tells when it begins and when it heals.

    Args:
        until: virtual second at which it heals; None: never.
    """

    until: float | None = field(default=None, kw_only=True, metadata=declare.seconds("a virtual second, or None for ever", optional=True))

    @abstractmethod
    def lay(self, effects: Effects) -> Heal:
        """Lay the effect; the result takes it away again."""

    def facts(self, task: str) -> dict[str, Any]:
        """What the trace tells of it at the lane of one of its tasks, besides its kind and its end."""
        return {}

    @property
    def ends_s(self) -> float | None:
        return self.until

    def check(self, effects: Effects | None = None) -> None:
        super().check(effects)
        now = 0.0 if effects is None else effects.now
        begins_s = now if self.trigger.at is None else self.trigger.at
        if self.until is not None and self.until <= begins_s:
            raise InvalidArgumentError(f"until={self.until} s is not after the beginning, {begins_s:g} s. Give a later second.")

    def begin(self, effects: Effects) -> Heal:
        # Noted first, so that in the trace a cause stands before what it does.
        end = {} if self.until is None else {"until": self.until}
        for task in self.tasks:
            effects.note(self.kind, task, f"{self.kind} of {task}", **self.facts(task), **end)
        take_away = self.lay(effects)
        if not callable(cast("object", take_away)):
            raise TypeError(
                f"{type(self).__name__}.lay(effects) returned {take_away!r}; expected what takes the effect away again, as "
                "effects.slow(...) gives it. Write return effects.slow(...), or return all_of([...]) of several."
            )

        def heal() -> None:
            for task in self.tasks:
                effects.note("heal", task, f"end of {self.kind} of {task}", kind=self.kind, **self.facts(task))
            take_away()

        return heal


@dataclass(eq=False)
class DirectedFault(LastingFault):
    """A fault of what some tasks send to others; the other direction is as ever.

    Args:
        source: who sends: the name of a task, or a list of names. The steps of the first one are those of ``after_steps=``.
        target: to whom.
    """

    source: str | Sequence[str] = field(metadata=declare.tasks("who sends"))
    target: str | Sequence[str] = field(metadata=declare.tasks("to whom"))

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*names_of(self.source), *names_of(self.target))))

    def check(self, effects: Effects | None = None) -> None:
        super().check(effects)
        if not self.pairs:
            raise InvalidArgumentError(f"{names_of(self.source)[0]} sends itself no messages. Give another target.")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each who sends with each to whom."""
        return [(a, b) for a in names_of(self.source) for b in names_of(self.target) if a != b]

    def facts(self, task: str) -> dict[str, Any]:
        """With whom (``peer``), in which direction (``way``), and the figures."""
        sent, received = [b for a, b in self.pairs if a == task], [a for a, b in self.pairs if b == task]
        way = "both" if sent and received else "sent" if sent else "received"
        left = {name: value for name, value in self.figures.items() if name not in ("source", "target", "until") and value is not None}
        return {"peer": ", ".join(dict.fromkeys([*sent, *received])), "way": way, **left}

    def describe(self) -> str:
        return f"{self.kind}({shown(self.source)}, {shown(self.target)}, {self.trigger.describe()})"


def all_of(heals: Sequence[Heal]) -> Heal:
    """Takes several effects away, in their order."""

    def heal() -> None:
        for take_away in heals:
            take_away()

    return heal


def names_of(side: str | Sequence[str]) -> tuple[str, ...]:
    """One side of several tasks, or of one."""
    return (side,) if isinstance(side, str) else tuple(side)


def shown(side: str | Sequence[str]) -> str:
    """A side as a user would write it."""
    names = names_of(side)
    return repr(names[0] if len(names) == 1 else list(names))
