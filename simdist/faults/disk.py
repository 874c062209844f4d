"""What befalls a task's disk: it has no room, it is slow, or a write is torn.

Each lies over the disk that the task has at that moment, also over that of its next machine. Where several overlap: factors multiply, and
a disk has room again when the last one ends that has taken it.

A disk that is lost is a crash without `keep_disk`, a lost host or a preemption: see process.py.

Taught in lesson 09.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simdist.faults import parameters as declare
from simdist.faults.effects import Effects, Heal
from simdist.faults.shapes import LastingFault, TaskFault

__all__ = ["DiskFull", "DiskSlow", "TornWrite"]


@dataclass(eq=False)
class DiskFull(TaskFault, LastingFault, kind="disk_full"):
    """A task's disk has no room: what begins to write, or has written its last byte, fails, and what was there stays."""

    may_end_waits = False

    def lay(self, effects: Effects) -> Heal:
        return effects.fill_disk(self.task)


@dataclass(eq=False)
class DiskSlow(TaskFault, LastingFault, kind="disk_slow"):
    """A task's disk is slower.

    Args:
        factor: on the time of each operation that begins meanwhile; 2.0: half as fast.
    """

    may_end_waits = False
    factor: float = field(metadata=declare.number("on the time of what its disk does; 2.0 means half as fast", above=0.0))

    def lay(self, effects: Effects) -> Heal:
        return effects.slow_disk(self.task, self.factor)

    def facts(self, task: str) -> dict[str, Any]:
        return {"factor": self.factor}


@dataclass(eq=False)
class TornWrite(TaskFault, kind="torn_write"):
    """The next write of a task's disk keeps only a prefix, and the disk says nothing of it. Who reads it back finds it.

    Args:
        writes: how many of the next writes.
    """

    may_end_waits = False
    writes: int = field(default=1, metadata=declare.whole_number("how many of the next writes", at_least=1))

    def begin(self, effects: Effects) -> None:
        effects.note(self.kind, self.task, f"{self.kind} of {self.task}", writes=self.writes)
        effects.tear_writes(self.task, self.writes)
