"""Who calls: the task whose program waits for a step, a file or a promise, and with which record it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simdist.runtime.simulated.task import Task
from simdist.simulation.fiber import Gate, Value, current_fiber
from simdist.simulation.kernel import Clock
from simdist.trace.records import NO_CAUSE

__all__ = ["AwaitedPromise", "LastRecord", "calling_task"]


def calling_task(tasks: Mapping[str, Task]) -> Task:
    """The task whose program runs at this moment; the notebook, and what is no program, belongs to the chief.

    Args:
        tasks: all of them, by name.
    """
    fiber = current_fiber()
    found = None if fiber is None else next((task for task in tasks.values() if fiber in task.fibers), None)
    return found or tasks["chief:0"]


class LastRecord:
    """The record of the disks that ended last.

    Attributes:
        number: its number.
        end_s: when it ended, in virtual seconds.
    """

    def __init__(self) -> None:
        self.number = NO_CAUSE
        self.end_s = 0.0

    def at(self, now: float) -> int:
        """The number of the record if it ended at this moment; otherwise -1."""
        return self.number if self.end_s == now else NO_CAUSE


class AwaitedPromise:
    """A promise of the engine: where work of a disk keeps it, the program that waits for it goes on after the record of that work.

    Args:
        clock: the cluster's.
        tasks: all of them, by name.
        disks: the record of the disks that ended last.
    """

    __slots__ = ("cause", "disks", "gate", "tasks")

    def __init__(self, clock: Clock, tasks: Mapping[str, Task], disks: LastRecord) -> None:
        self.gate = Gate(clock)
        self.tasks = tasks
        self.disks = disks
        self.cause = NO_CAUSE

    @property
    def is_open(self) -> bool:
        return self.gate.is_open

    def open(self, value: Value = None) -> None:
        if not self.gate.is_open:
            self.cause = self.disks.at(self.gate.clock.now)
            self.gate.open(value)

    def wait(self, what: str | Callable[[], str] = "") -> Value:
        found = self.gate.wait(what)
        if self.cause != NO_CAUSE:
            processor = calling_task(self.tasks).processor
            processor.last = max(processor.last, self.cause)
        return found
