"""A task's disk in virtual time: work on it takes time, one piece after the other.

Work is a generator that gives the seconds of each of its operations and changes the files between them; `run` begins it when all earlier
work is over. A crash drops the work that is not over: it has no further effect. What a crash leaves of the files is in files.py.

Taught in lesson 07.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from simdist.errors import InvalidArgumentError, ResourceExhaustedError, SimdistError
from simdist.hardware.disks import DiskModel
from simdist.simulation.files import Files
from simdist.simulation.kernel import Clock

__all__ = ["Disk", "Work"]

Work: TypeAlias = Generator[float, None, Any]
"""Gives the seconds of one operation after the other; may end with a `SimdistError`."""

Ended: TypeAlias = Callable[[BaseException | None], object]

Postpone: TypeAlias = Callable[[Callable[[Any], object], Any], bool]
"""Keeps a call for later where the process stands still; whether it has."""


@dataclass(eq=False)
class _Job:
    work: Work
    ended: Ended


class Disk:
    """The disk of one task.

    Args:
        clock: whose time passes.
        model: the disk's figures.
        owner: whose disk it is, for messages.
        stream: decides how much of what was not durable survives a crash, and where a write is torn.
        postpone: as of `Postpone`; default for a process that never stands still.

    Attributes:
        files: what is on it.
        torn_writes: how many of the next writes keep only a prefix.

    Example:
        >>> disk = Disk(Clock(), DiskModel(write_bandwidth=1e6, latency=0.0), "worker:0", np.random.default_rng(0))
        >>> disk.run(disk.write("model", 1000), lambda error: print("written at", disk.clock.now, error))
        >>> disk.clock.sleep(1.0)
        written at 0.001 None
        >>> disk.files.used_bytes, disk.files.content("model").is_whole
        (1000, True)
    """

    def __init__(
        self, clock: Clock, model: DiskModel, owner: str, stream: np.random.Generator, postpone: Postpone = lambda function, argument: False
    ) -> None:
        self.clock = clock
        self.model = model
        self.files = Files(owner, stream)
        self.postpone = postpone
        self.torn_writes = 0
        self._slow_factors: dict[object, float] = {}
        self._full: set[object] = set()
        self._jobs: deque[_Job] = deque()

    # -- the queue ------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether there is work that is not over."""
        return bool(self._jobs)

    def run(self, work: Work, ended: Ended) -> None:
        """Do this work after all earlier work; `ended` is called later, when it is over, with None or with its error."""
        job = _Job(work, ended)
        self._jobs.append(job)
        if self._jobs[0] is job:
            self._begin(job)

    def _begin(self, job: _Job) -> None:
        """Do the first operation at once; who has asked for it expects no answer yet."""
        if not self.postpone(self._next, job):
            self._do(job, lambda error: self.clock.after(0.0, self._end, (job, error)))

    def _next(self, job: _Job) -> None:
        if self._is_first(job) and not self.postpone(self._next, job):
            self._do(job, lambda error: self._end((job, error)))

    def _do(self, job: _Job, over: Ended) -> None:
        """One more operation of a piece of work; `over` is called where there is none."""
        try:
            seconds = next(job.work)
        except StopIteration:
            over(None)
        except SimdistError as error:
            over(error)
        else:
            self.clock.after(seconds * math.prod(self._slow_factors.values(), start=1.0), self._next, job)

    def _end(self, what: tuple[_Job, BaseException | None]) -> None:
        job, error = what
        if self._is_first(job):
            self._jobs.popleft()
            if self._jobs:
                self.clock.after(0.0, self._next, self._jobs[0])
            job.ended(error)

    def _is_first(self, job: _Job) -> bool:
        """Whether it is the turn of this job; not if a crash has dropped it."""
        return bool(self._jobs) and self._jobs[0] is job

    # -- work -----------------------------------------------------------------------------------------------------

    def write(self, path: str, size_bytes: int) -> Work:
        """Create a file, or replace what is in it.

        Raises:
            ResourceExhaustedError: there is not enough room; nothing has changed.
        """
        self._require_room(path, size_bytes, replaces=True)
        yield self.model.write_seconds(size_bytes)
        self._require_room(path, size_bytes, replaces=True)
        self.files.put(path, size_bytes, self._kept(size_bytes))

    def write_synced(self, path: str, size_bytes: int) -> Work:
        """As `write` and `fsync` in one, with a name that is durable then; the work returns its `Content`."""
        self._require_room(path, size_bytes, replaces=True)
        yield self.model.write_seconds(size_bytes) + self.model.fsync
        self._require_room(path, size_bytes, replaces=True)
        self.files.put(path, size_bytes, self._kept(size_bytes))
        self.files.fsync(path)
        self.files.fsync_directory()
        return self.files.content(path)

    def append(self, path: str, size_bytes: int) -> Work:
        """Add bytes at the end of a file, which is made if it is not there.

        Raises:
            ResourceExhaustedError: there is not enough room; nothing has changed.
        """
        self._require_room(path, size_bytes, replaces=False)
        yield self.model.write_seconds(size_bytes)
        self._require_room(path, size_bytes, replaces=False)
        self.files.append(path, size_bytes, self._kept(size_bytes))

    def read(self, path: str) -> Work:
        """Read a file; the work returns its `Content`.

        Raises:
            NotFoundError: there is no such file.
        """
        yield self.model.read_seconds(self.files.content(path).intact_bytes)
        return self.files.content(path)

    def fsync(self, path: str) -> Work:
        """Make the content of a file durable.

        Raises:
            NotFoundError: there is no such file.
        """
        self.files.content(path)
        yield self.model.fsync
        self.files.fsync(path)

    def fsync_directory(self) -> Work:
        """Make all creations, renames and deletions durable."""
        yield self.model.fsync
        self.files.fsync_directory()

    def rename(self, old: str, new: str) -> Work:
        """Give a file another name, in one moment; a file of that name is gone.

        Raises:
            NotFoundError: there is no such file.
        """
        self.files.content(old)
        yield self.model.latency
        self.files.rename(old, new)

    def delete(self, path: str) -> Work:
        """Remove a file.

        Raises:
            NotFoundError: there is no such file.
        """
        self.files.content(path)
        yield self.model.latency
        self.files.delete(path)

    # -- what befalls it ------------------------------------------------------------------------------------------

    def crash(self) -> list[Ended]:
        """Lose what was not durable, as the rules say; the result is whom to notify that its work has no effect any more."""
        self.files.crash()
        return self._dropped()

    def lose(self) -> list[Ended]:
        """Lose all files; the result is as of `crash`."""
        self.files.lose()
        return self._dropped()

    def slow_by(self, factor: float) -> Callable[[], None]:
        """Multiply the time of each operation that begins from now on; the result takes this factor away again."""
        token = object()
        self._slow_factors[token] = factor

        def heal() -> None:
            self._slow_factors.pop(token, None)

        return heal

    def fill(self) -> Callable[[], None]:
        """Leave no room from now on: a write that begins or ends fails; the result gives the room back."""
        token = object()
        self._full.add(token)
        return lambda: self._full.discard(token)

    def _dropped(self) -> list[Ended]:
        dropped, self._jobs = self._jobs, deque()
        for job in dropped:
            job.work.close()
        return [job.ended for job in dropped]

    def _kept(self, size_bytes: int) -> int:
        """How much of a write is there in the end."""
        if not self.torn_writes:
            return size_bytes
        self.torn_writes -= 1
        return int(self.files.stream.integers(max(1, size_bytes)))

    def _require_room(self, path: str, size_bytes: int, replaces: bool) -> None:
        files, owner, capacity = self.files, self.files.owner, self.model.capacity
        if not path:
            raise InvalidArgumentError("A file needs a name; got an empty one.")
        if self._full:
            raise ResourceExhaustedError(
                f"The disk of {owner} is full: something else has taken all of its {capacity:.0f} bytes; {path!r} was not written. Try "
                "again later, or delete old files."
            )
        more_bytes = size_bytes - (files.content(path).intact_bytes if replaces and files.exists(path) else 0)
        if files.used_bytes + more_bytes > capacity:
            raise ResourceExhaustedError(
                f"The disk of {owner} has {capacity:.0f} bytes, of which {files.used_bytes} are in use; {path!r} needs {more_bytes} more. "
                "Delete old files, or keep fewer checkpoints."
            )
