"""Preemptions: a machine is taken away from a task, as a cloud does with cheap ones, and the task gets notice of it before.

The notice is of the machine: a process that crashes and starts again on the same machine has the same notice, and one that has found
another machine meanwhile has none. At its second the process is killed as by a crash, and the disk is lost with the machine; a launched
main that exits before, to be started again elsewhere, gives its machine back at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simdist.runtime.simulated.task import Task
from simdist.simulation.kernel import Clock
from simdist.trace import Trace

__all__ = ["Preemptions"]


@dataclass(eq=False)
class _Notice:
    task: Task
    machine: int
    killed_at_s: float
    restart_after_s: float | None
    reason: str


class Preemptions:
    """The preemptions of one cluster.

    Args:
        clock, trace: the cluster's.
        crash: kills a task's process, of which its restart and the reason are given, and loses its disk.
    """

    def __init__(self, clock: Clock, trace: Trace, crash: Callable[[Task, float | None, str], None]) -> None:
        self.clock = clock
        self.trace = trace
        self.crash = crash
        self._notices: list[_Notice] = []
        self._watchers: dict[Task, list[Callable[[float], object]]] = {}

    def preempt(self, task: Task, notice_s: float, restart_after_s: float | None, reason: str) -> None:
        """Give a task notice that its machine is taken away in so many seconds."""
        now = self.clock.now
        notice = _Notice(task, task.machine, now + notice_s, restart_after_s, reason)
        text = f"{task.name}'s machine is taken away in {notice_s:g} s"
        task.trouble = self.trace.instant(task.name, "preempt", text, now, notice_s=notice_s, reason=reason)
        self._notices.append(notice)
        self.clock.after(notice_s, self._kill, notice)
        for noticed in list(self._watchers.get(task, ())):
            noticed(notice.killed_at_s)

    def killed_at(self, task: Task) -> float | None:
        """The second at which a task's machine is taken away; None where it has no notice."""
        seconds = [notice.killed_at_s for notice in self._notices if notice.task is task and notice.machine == task.machine]
        return min(seconds, default=None)

    def watch(self, task: Task, noticed: Callable[[float], object]) -> None:
        """Call a function with that second at each notice of a task."""
        self._watchers.setdefault(task, []).append(noticed)

    def give_back(self, task: Task) -> bool:
        """Take a machine away at once, because its program has ended before its time was over; whether it had notice."""
        notices = [notice for notice in self._notices if notice.task is task and notice.machine == task.machine]
        for notice in sorted(notices, key=lambda notice: notice.killed_at_s)[:1]:
            self.clock.after(0.0, self._kill, notice)
        return bool(notices)

    def _kill(self, notice: _Notice) -> None:
        if notice not in self._notices:
            return
        self._notices.remove(notice)
        if notice.machine == notice.task.machine:
            self.crash(notice.task, notice.restart_after_s, notice.reason)
