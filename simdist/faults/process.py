"""What happens to a task's process: it dies, its machine is taken away, it becomes slow, or it stands still.

A crash is loud: connections are reset, and every task that talked to it learns of it at once. A lost host is as dead, and silent: no task
is notified, and others find it out by time-outs. A task that is preempted knows it some seconds before. A task that pauses is silent too,
and when it goes on it does not know that it was away. A slow task does everything right, and late.

A crash leaves the disk, unless the fault says otherwise. A lost host and a preemption take it away: the restart is on another machine.

Where several overlap: factors multiply, and each ends by itself. A death of a task that is down takes the place of the one before: what
the last one says of a restart holds.

Taught in lesson 01.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simdist.arguments import END_S
from simdist.errors import InvalidArgumentError
from simdist.faults import parameters as declare
from simdist.faults.effects import Effects, Heal
from simdist.faults.shapes import LastingFault, TaskFault

__all__ = ["Crash", "LoseHost", "Pause", "Preempt", "Slow"]

RESTART = declare.seconds("seconds from the death on; None is for never", optional=True)


@dataclass(eq=False)
class Crash(TaskFault, kind="crash"):
    """A task's process is killed: its memory is lost, its connections are reset.

    The engine notes it in the trace, and the restart too.

    Args:
        restart_after: seconds until the process starts again, with the next incarnation; None: never.
        keep_disk: whether it starts again on the same machine; False: on another one, whose disk is empty.
    """

    restart_after: float | None = field(default=None, metadata=RESTART)
    keep_disk: bool = field(default=True, metadata=declare.switch("whether what was durable on its disk is there afterwards"))

    def begin(self, effects: Effects) -> None:
        effects.crash(self.task, self.restart_after, self.describe(), self.keep_disk)


@dataclass(eq=False)
class LoseHost(TaskFault, kind="lose_host"):
    """A task's machine is gone, and its process and its disk with it; nobody's connections are reset.

    With the chief the program is lost that runs there: its launched main, or the one that drives the cluster, as by a crash. The engine
    notes it in the trace, and the restart too.

    Args:
        restart_after: seconds until the process starts again, on another machine and with the next incarnation; None: never.
    """

    silences = True
    restart_after: float | None = field(default=None, metadata=RESTART)

    def begin(self, effects: Effects) -> None:
        effects.lose_host(self.task, self.restart_after, self.describe())


@dataclass(eq=False)
class Preempt(TaskFault, kind="preempt"):
    """A task's machine is taken away, as a cloud does with cheap ones; the task gets notice of it before.

    At the end of the notice its process is killed as by a crash, and its disk is lost. The engine notes notice, crash and restart in the
    trace. A task that has found another machine before loses nothing.

    Args:
        notice: seconds from the notice to the kill.
        restart_after: seconds from the kill until the process starts again, on another machine; None: never.
    """

    notice: float = field(metadata=declare.number("seconds from the notice to the kill", unit="s", above=0.0, below=END_S))
    restart_after: float | None = field(default=None, metadata=RESTART)

    def begin(self, effects: Effects) -> None:
        effects.preempt(self.task, self.notice, self.restart_after, self.describe())


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
