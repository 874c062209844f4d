"""What befalls a task's process: it dies, it becomes slow, or it stands still.

A crash is loud: connections are reset, and whoever talked to the task learns of it at once. A task that pauses is silent:
others can only notice that they hear nothing, and when it goes on it does not know that it was away. A slow task does
everything right, and late.

Where several meet: factors multiply, and each ends by itself. A crash of a task that is down takes the place of the one
before: what the last one says of a restart holds.

Taught in lesson 01.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.faults.base import Effects, Heal
from simdist.faults.shapes import LastingFault, TaskFault
from simdist.faults.triggers import require_factor, require_seconds

__all__ = ["Crash", "Pause", "Slow"]


@dataclass(eq=False)
class Crash(TaskFault, kind="crash"):
    """A task's process is killed: its memory is lost, its connections are reset.

    The engine notes it in the trace, and the restart too.

    Args:
        restart_after: seconds until the process starts again, with the next incarnation; None: never.
    """

    restart_after: float | None = None

    def check(self, effects: Effects) -> None:
        if self.restart_after is not None:
            require_seconds("restart_after", self.restart_after, "seconds from the crash on, or None for never")
        super().check(effects)

    def begin(self, effects: Effects) -> None:
        effects.crash(self.task, self.restart_after, self.describe())


@dataclass(eq=False)
class Slow(TaskFault, LastingFault, kind="slow"):
    """A task's devices are slower.

    Args:
        factor: on the time of everything that begins meanwhile; 2.0: half as fast.
    """

    factor: float

    def check(self, effects: Effects) -> None:
        self.factor = require_factor(self.factor)
        super().check(effects)

    def lay(self, effects: Effects) -> Heal:
        return effects.slow(self.task, self.factor)

    def facts(self, task: str) -> dict[str, Any]:
        return {"factor": self.factor}


@dataclass(eq=False)
class Pause(TaskFault, LastingFault, kind="pause"):
    """A task's process stands still: alive, and silent. What arrives meanwhile waits for it."""

    silences = True

    def check(self, effects: Effects) -> None:
        super().check(effects)
        if self.task == "chief:0":
            raise InvalidArgumentError("chief:0 cannot pause: the program that drives the cluster runs there. Pause a worker or a ps.")

    def lay(self, effects: Effects) -> Heal:
        return effects.pause(self.task)
