"""What many kinds of faults have in common: one task that they hit, or an end at which they heal.

A kind takes from here what fits, and adds its own parameters. Another target (a link, a disk) or another course is another
shape.

Taught in lesson 01.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.faults.base import Effects, Fault, Heal
from simdist.faults.triggers import require_seconds

__all__ = ["LastingFault", "TaskFault", "known_task"]


@dataclass(eq=False)
class TaskFault(Fault):
    """A fault of one task.

    Args:
        task: "worker:1", "ps:0" or "chief:0" ("chief" for short).
    """

    task: str

    @property
    def tasks(self) -> tuple[str, ...]:
        return (self.task,)

    def check(self, effects: Effects) -> None:
        super().check(effects)
        self.task = known_task(self.task, effects)


@dataclass(eq=False)
class LastingFault(Fault):
    """A fault that lasts for a while; the trace tells when it begins and when it heals.

    Args:
        until: virtual second at which it heals; None: never.
    """

    until: float | None = field(default=None, kw_only=True)

    @abstractmethod
    def lay(self, effects: Effects) -> Heal:
        """Lay the effect; the result takes it away again."""

    def facts(self, task: str) -> dict[str, Any]:
        """What the trace tells of it at the lane of one of its tasks, besides its kind and its end."""
        return {}

    @property
    def ends_s(self) -> float | None:
        return self.until

    def check(self, effects: Effects) -> None:
        super().check(effects)
        if self.until is not None:
            require_seconds("until", self.until, "a virtual second, or None for ever")
            begins_s = effects.now if self.trigger.at is None else self.trigger.at
            if self.until <= begins_s:
                raise InvalidArgumentError(f"until={self.until} s is not after the beginning, {begins_s:g} s. Give a later second.")

    def begin(self, effects: Effects) -> Heal:
        # Noted first, so that in the trace a cause stands before what it does.
        end = {} if self.until is None else {"until": self.until}
        for task in self.tasks:
            effects.note(self.kind, task, f"{self.kind} of {task}", **self.facts(task), **end)
        take_away = self.lay(effects)

        def heal() -> None:
            for task in self.tasks:
                effects.note("heal", task, f"end of {self.kind} of {task}", kind=self.kind, **self.facts(task))
            take_away()

        return heal


def known_task(name: Any, effects: Effects) -> str:
    """The whole name of a task; "chief" is short for "chief:0".

    Raises:
        InvalidArgumentError: it is no text, or there is no such task.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{name!r} is no name of a task. Give text, such as 'worker:1'.")
    return effects.require_task("chief:0" if name == "chief" else name)
