"""The disk of a task on a simulated machine: `TaskDisk` on a `Disk`, with what befalls the task and its machine.

A crash of the process leaves the disk, and what was durable on it; temporary files of writes that did not end are removed. With its
machine all is lost, and the next incarnation begins with an empty disk.

Taught in lesson 07.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from simdist.errors import AbortedError, SimdistError, UnavailableError
from simdist.hardware.disks import DiskModel
from simdist.randomness import generator
from simdist.runtime.simulated.callers import LastRecord, calling_task
from simdist.runtime.simulated.gathering import Copying, Gathering
from simdist.runtime.simulated.task import Task
from simdist.runtime.storage import Ended, checked_file
from simdist.simulation.disk import Disk, Work
from simdist.simulation.kernel import Clock
from simdist.trace import Trace
from simdist.trace.records import NO_CAUSE

__all__ = ["SimulatedDisk"]

TORN_ATTEMPTS = 3
"""So often a write may be torn before it is given up."""


class SimulatedDisk:
    """As `TaskDisk`.

    Args:
        clock, trace: the cluster's.
        task: whose disk it is.
        tasks: all of them, by name.
        model: its figures.
        seed: of the cluster.
        copy: brings parts of files from other tasks.
        latest: the record of all disks that ended last.

    Attributes:
        disk: what is on it.
        last: the number of its last record: the cause of what it does next.
        lost: are called when all that was on it is lost.
    """

    def __init__(
        self,
        clock: Clock,
        trace: Trace,
        task: Task,
        tasks: Mapping[str, Task],
        model: DiskModel,
        seed: int,
        copy: Copying,
        latest: LastRecord,
    ) -> None:
        self.clock = clock
        self.trace = trace
        self.task = task
        self.tasks = tasks
        self.copy = copy
        self.latest = latest
        self.last = NO_CAUSE
        self.disk = Disk(clock, model, task.name, generator(seed, task.name, "disk"), self._postpone)
        self.lost: list[Callable[[], object]] = []
        self._gatherings: dict[Gathering, None] = {}
        self._numbers = itertools.count(1)
        self._temporary: set[str] = set()

    @property
    def model(self) -> DiskModel:
        return self.disk.model

    @property
    def used_bytes(self) -> int:
        return self.disk.files.used_bytes

    def exists(self, path: str) -> bool:
        return self.disk.files.exists(path)

    def size_bytes(self, path: str) -> int:
        return self.disk.files.content(path).size_bytes if self.exists(path) else 0

    def delete(self, path: str) -> None:
        self.disk.files.discard(path)

    def read(self, path: str, size_bytes: int, ended: Ended) -> None:
        checked_file(path, size_bytes, None, self.tasks)
        self.run(self._read(path, int(size_bytes), self._cause()), ended)

    def write(self, path: str, size_bytes: int, ended: Ended, parts: Mapping[str, int] | None = None) -> None:
        checked_file(path, size_bytes, parts, self.tasks)
        size_bytes = int(size_bytes)
        elsewhere = {name: part_bytes for name, part_bytes in (parts or {}).items() if name != self.task.name and part_bytes}
        if not elsewhere or not self.task.alive:
            self.run(self._write(path, size_bytes, self._cause()), ended)
            return
        began_s, cause = self.clock.now, self._cause()

        def gathered(error: BaseException | None) -> None:
            self._gatherings.pop(gathering, None)
            if error is not None:
                ended(error)
            else:
                gather = self._span(f"gather {_name(path)}", began_s, sum(elsewhere.values()), cause)
                self.run(self._write(path, size_bytes, gather), ended)

        gathering = Gathering(self.clock, self.copy, self.task.name, elsewhere, f"parts of {_name(path)}", gathered)
        self._gatherings[gathering] = None

    def run(self, work: Work, ended: Ended) -> None:
        """Do work of the task's process on the disk, after all earlier work."""
        if self.task.alive:
            self.disk.run(work, ended)
        else:
            work.close()
            self.clock.after(0.0, ended, UnavailableError(f"{self.task.name} is down, and so is its disk. Use it when it is back."))

    def died(self, task: Task, is_lost: bool) -> None:
        """A task has died; with `is_lost` its machine is gone."""
        if task is self.task:
            self._died(is_lost)
            return
        for gathering in list(self._gatherings):
            gathering.holder_died(task.name)

    def _died(self, is_lost: bool) -> None:
        error = UnavailableError(f"{self.task.name} died while its disk worked. What was confirmed is there, if its disk is.")
        gatherings, self._gatherings = self._gatherings, {}
        dropped = self.disk.lose() if is_lost else self.disk.crash()
        for temporary in list(self._temporary):
            self._drop(temporary)
        if is_lost:
            for listener in self.lost:
                listener()
        for gathering in gatherings:
            gathering.end(error)
        for ended in dropped:
            ended(error)

    # -- work -----------------------------------------------------------------------------------------------------

    def _read(self, path: str, size_bytes: int, cause: int) -> Work:
        began_s, cause = self.clock.now, max(cause, self.last)
        yield self.model.read_seconds(size_bytes)
        self._file_span(f"read {_name(path)}", began_s, size_bytes, cause)

    def _write(self, path: str, size_bytes: int, cause: int) -> Work:
        """Replace a file whole, or leave it as it is."""
        began_s, cause, temporary = self.clock.now, max(cause, self.last), f"{path}.{next(self._numbers)}.tmp"
        self._temporary.add(temporary)
        try:
            yield from self._write_verified(temporary, path, size_bytes)
            yield from self.disk.rename(temporary, path)
            yield from self.disk.fsync_directory()
        except SimdistError as error:
            self._drop(temporary)
            self.note(f"{_name(path)} was not written: {_why(error)}", bytes=size_bytes)
            raise type(error)(f"{path!r} was not written, and nothing has changed. {error}") from error
        self._temporary.discard(temporary)
        self._file_span(f"write {_name(path)}", began_s, size_bytes, cause)

    def _drop(self, temporary: str) -> None:
        self.disk.files.discard(temporary)
        self._temporary.discard(temporary)

    def _write_verified(self, temporary: str, path: str, size_bytes: int) -> Work:
        for attempt in range(1, TORN_ATTEMPTS + 1):
            yield from self.disk.write(temporary, size_bytes)
            yield from self.disk.fsync(temporary)
            content = yield from self.disk.read(temporary)
            if content.is_whole:
                return
            self.disk.files.discard(temporary)
            self.note(f"write {attempt} of {_name(path)} was torn", bytes=size_bytes, intact=content.intact_bytes)
        raise AbortedError(f"{TORN_ATTEMPTS} attempts in a row were torn by the disk of {self.task.name}. Replace the disk.")

    # -- inside ---------------------------------------------------------------------------------------------------

    def note(self, text: str, **facts: Any) -> None:
        """Record an instant of the task's lane that belongs to its disk."""
        self.trace.instant(self.task.name, "checkpoint", text, self.clock.now, **facts)

    def _cause(self) -> int:
        """What the program has done last that asks for a file."""
        return calling_task(self.tasks).processor.last

    def _span(self, name: str, began_s: float, size_bytes: int, cause: int) -> int:
        return self.trace.span(self.task.name, "checkpoint", name, began_s, self.clock.now, cause=cause, bytes=size_bytes)

    def _file_span(self, name: str, began_s: float, size_bytes: int, cause: int) -> None:
        """Record work of the disk itself: what it does next waits for it, and so does who has waited for the file."""
        self.last = self.latest.number = self._span(name, began_s, size_bytes, cause)
        self.latest.end_s = self.clock.now

    def _postpone(self, function: Callable[[Any], object], argument: Any) -> bool:
        """A process that is paused goes on with its work when it goes on itself."""
        if self.task.held is None:
            return False
        self.task.held.append((function, argument))
        return True


def _name(path: str) -> str:
    """The last part of a path: where real files lie differs from run to run, and must not be in a trace."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path


def _why(error: SimdistError) -> str:
    return "its writes were torn" if isinstance(error, AbortedError) else "the disk is full"
