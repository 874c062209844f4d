"""The disks of a simulated cluster: each made when it is first asked for, with the figures of its task's job."""

from __future__ import annotations

from collections.abc import Mapping

from simdist.hardware.disks import DiskModel, nvme
from simdist.runtime.simulated.callers import LastRecord
from simdist.runtime.simulated.gathering import Copying
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.task_disk import SimulatedDisk
from simdist.simulation.kernel import Clock
from simdist.trace import Trace

__all__ = ["Disks"]


class Disks:
    """All disks of one cluster.

    Args:
        clock, trace: the cluster's.
        tasks: all of them, by name.
        models: the figures by job; a job that is left out has nvme.
        seed: of the cluster.
        copy: brings parts of files from other tasks.

    Attributes:
        used: those that were asked for, by task.
        last: the record of theirs that ended last.
    """

    def __init__(
        self, clock: Clock, trace: Trace, tasks: Mapping[str, Task], models: Mapping[str, DiskModel], seed: int, copy: Copying
    ) -> None:
        self.clock = clock
        self.trace = trace
        self.tasks = tasks
        self.models = models
        self.seed = seed
        self.copy = copy
        self.used: dict[str, SimulatedDisk] = {}
        self.last = LastRecord()

    def of(self, task: Task) -> SimulatedDisk:
        """The disk of a task."""
        if task.name not in self.used:
            model = self.models.get(task.name.partition(":")[0], nvme)
            self.used[task.name] = SimulatedDisk(self.clock, self.trace, task, self.tasks, model, self.seed, self.copy, self.last)
        return self.used[task.name]

    def died(self, task: Task, is_lost: bool) -> None:
        """A task has died; with `is_lost` its disk is gone with its machine."""
        for disk in list(self.used.values()):
            disk.died(task, is_lost)
