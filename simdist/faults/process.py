"""What happens to a task's process: it dies, it becomes slow, or it stands still.

A crash is loud: connections are reset, and every task that talked to it learns of it at once. A lost host is as dead, and silent: no task
is notified, and others find it out by time-outs. A task that pauses is silent too, and when it goes on it does not know that it was away.
A slow task does everything right, and late.

Where several overlap: factors multiply, and each ends by itself. A death of a task that is down takes the place of the one before: what
the last one says of a restart holds.

Taught in lesson 01.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.faults import parameters as declare
from simdist.faults.effects import Effects, Heal
from simdist.faults.shapes import LastingFault, TaskFault

__all__ = ["Crash", "LoseHost", "Pause", "Slow"]

RESTART = declare.seconds("seconds from the death on, or None for never", optional=True)


@dataclass(eq=False)
class Crash(TaskFault, kind="crash"):
    """A task's process is killed: its memory is lost, its connections are reset.

    The engine notes it in the trace, and the restart too.

    Args:
        restart_after: seconds until the process starts again, with the next incarnation; None: never.
    """

    restart_after: float | None = field(default=None, metadata=RESTART)

    def begin(self, effects: Effects) -> None:
        effects.crash(self.task, self.restart_after, self.describe())


@dataclass(eq=False)
class LoseHost(TaskFault, kind="lose_host"):
    """A task's machine is gone, and its process with it; nobody's connections are reset.

    The engine notes it in the trace, and the restart too.

    Args:
        restart_after: seconds until the process starts again, on another machine and with the next incarnation; None: never.
    """

    silences = True
    restart_after: float | None = field(default=None, metadata=RESTART)

    def check(self, effects: Effects | None = None) -> None:
        super().check(effects)
        if self.task == "chief:0":
            raise InvalidArgumentError("chief:0 cannot be lost in silence: the program that drives the cluster runs there. Use crash.")

    def begin(self, effects: Effects) -> None:
        effects.lose_host(self.task, self.restart_after, self.describe())


@dataclass(eq=False)
class Slow(TaskFault, LastingFault, kind="slow"):
    """A task's devices are slower.

    Args:
        factor: on the time of everything that begins meanwhile; 2.0: half as fast.
    """

    may_end_waits = False
    factor: float = field(metadata=declare.number("on the time of what it computes; 2.0 means half as fast", above=0.0))

    def lay(self, effects: Effects) -> Heal:
        return effects.slow(self.task, self.factor)

    def facts(self, task: str) -> dict[str, Any]:
        return {"factor": self.factor}


@dataclass(eq=False)
class Pause(TaskFault, LastingFault, kind="pause"):
    """A task's process stands still: alive, and silent. What arrives meanwhile waits for it."""

    silences = True

    def check(self, effects: Effects | None = None) -> None:
        super().check(effects)
        if self.task == "chief:0":
            raise InvalidArgumentError("chief:0 cannot pause: the program that drives the cluster runs there. Pause a worker or a ps.")

    def lay(self, effects: Effects) -> Heal:
        return effects.pause(self.task)
