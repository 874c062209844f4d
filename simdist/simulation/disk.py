"""A task's disk in virtual time: work on it takes time, and a crash can lose what was not made durable.

A disk knows of each file its size and how much of it is intact, and not the bytes. The rules are those of a journalling file system that
orders nothing by itself:

- *Data*: `write` and `append` are seen at once by every reader. In a crash, of the bytes that were not synced since, a prefix
  survives, drawn from the disk's stream. `fsync(path)` makes what is in the file durable.
- *Names*: a creation, `rename` or `delete` is seen at once. `fsync_directory()` makes all of them durable. In a crash the first few of
  those that were not survive (in their order), and the others never happened.
- Data and names are independent: a file whose name survived may be empty. So the only safe way to replace a file is: write
  a temporary one, fsync it, rename it, fsync the directory. Then there is the old or the new content, whole.

Work is a generator that gives the seconds of each of its operations and changes the disk between them; `run` begins it when all earlier
work is over. A crash drops the work that is not over: it has no further effect. There is one flat directory; a path is a name.

Not simulated: blocks, write-back in the background, caches that survive the crash of a process only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from simdist.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, SimdistError
from simdist.hardware.disks import DiskModel
from simdist.simulation.kernel import Clock

__all__ = ["Content", "Disk", "Work"]

Work: TypeAlias = Generator[float, None, Any]
"""Gives the seconds of one operation after the other; may end with a `SimdistError`."""

Ended: TypeAlias = Callable[[BaseException | None], object]

Postpone: TypeAlias = Callable[[Callable[[Any], object], Any], bool]
"""Keeps a call for later where the process stands still; whether it has."""


@dataclass(frozen=True)
class Content:
    """What is in a file.

    Attributes:
        version: the number of the write that began it.
        size_bytes: how many bytes were written.
        intact_bytes: how many of them are there, from the first one on; fewer than `size_bytes` in a file that is torn.
    """

    version: int
    size_bytes: int
    intact_bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether every byte that was written is there."""
        return self.intact_bytes == self.size_bytes


@dataclass(eq=False)
class _File:
    content: Content
    durable: Content | None = None  # what a crash leaves at least, if the content still begins with it


@dataclass(eq=False)
class _Job:
    work: Work
    ended: Ended


class Disk:
    """The files of one task.

    Args:
        clock: whose time passes.
        model: the disk's figures.
        owner: whose disk it is, for messages.
        stream: decides how much of what was not durable survives a crash, and where a write is torn.
        postpone: as of `Postpone`; default for a process that never stands still.

    Attributes:
        torn_writes: how many of the next writes keep only a prefix.

    Example:
        >>> disk = Disk(Clock(), DiskModel(write_bandwidth=1e6, latency=0.0), "worker:0", np.random.default_rng(0))
        >>> disk.run(disk.write("model", 1000), lambda error: print("written at", disk.clock.now, error))
        >>> disk.clock.sleep(1.0)
        written at 0.001 None
        >>> disk.used_bytes, disk.content("model").is_whole
        (1000, True)
    """

    def __init__(
        self, clock: Clock, model: DiskModel, owner: str, stream: np.random.Generator, postpone: Postpone = lambda function, argument: False
    ) -> None:
        self.clock = clock
        self.model = model
        self.owner = owner
        self.stream = stream
        self.postpone = postpone
        self.torn_writes = 0
        self._slow_factors: dict[object, float] = {}
        self._full: set[object] = set()
        self._jobs: deque[_Job] = deque()
        self._versions = 0
        self._files: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._names_changed: list[dict[str, _File]] = []  # the directory after each change that is not durable

    # -- the queue ------------------------------------------------------------------------------------------------

    def run(self, work: Work, ended: Ended) -> None:
        """Do this work after all earlier work; `ended` is called later, when it is over, with None or with its error."""
        job = _Job(work, ended)
        self._jobs.append(job)
        if self._jobs[0] is job:
            self._go_on(job, is_late=False)

    def _next(self, job: _Job) -> None:
        self._go_on(job, is_late=True)

    def _go_on(self, job: _Job, is_late: bool) -> None:
        """Let the first job do its next operation, or end it."""
        if not self._jobs or self._jobs[0] is not job:
            return  # a crash has dropped it
        if self.postpone(self._next, job):
            return
        error = None
        try:
            seconds = next(job.work) * math.prod(self._slow_factors.values(), start=1.0)
        except StopIteration:
            pass
        except SimdistError as found:
            error = found
        else:
            self.clock.after(seconds, self._next, job)
            return
        if not is_late:  # whoever has asked does not expect an answer yet
            self.clock.after(0.0, self._end, (job, error))
        else:
            self._end((job, error))

    def _end(self, what: tuple[_Job, BaseException | None]) -> None:
        job, error = what
        if not self._jobs or self._jobs[0] is not job:
            return
        self._jobs.popleft()
        job.ended(error)
        if self._jobs:
            self._next(self._jobs[0])

    # -- work -----------------------------------------------------------------------------------------------------

    def write(self, path: str, size_bytes: int) -> Work:
        """Create a file, or replace what is in it.

        Raises:
            ResourceExhaustedError: there is not enough room; nothing has changed.
        """
        self._require_room(path, size_bytes - self._intact_bytes(path))
        yield self.model.write_seconds(size_bytes)
        self._require_room(path, size_bytes - self._intact_bytes(path))
        self._put(path, size_bytes)

    def write_synced(self, path: str, size_bytes: int) -> Work:
        """As `write` and `fsync` in one, over a file whose name is durable; the work returns its `Content`."""
        self._require_room(path, size_bytes - self._intact_bytes(path))
        yield self.model.write_seconds(size_bytes) + self.model.fsync
        self._require_room(path, size_bytes - self._intact_bytes(path))
        self._put(path, size_bytes)
        self._names_are_durable()
        file = self._file(path)
        file.durable = file.content
        return file.content

    def append(self, path: str, size_bytes: int) -> Work:
        """Add bytes at the end of a file, which is made if it is not there.

        Raises:
            ResourceExhaustedError: there is not enough room; nothing has changed.
        """
        self._require_room(path, size_bytes)
        yield self.model.write_seconds(size_bytes)
        self._require_room(path, size_bytes)
        if path not in self._files:
            self._put(path, size_bytes)
            return
        file = self._files[path]
        before, added = file.content, self._kept(size_bytes)
        intact = before.intact_bytes + added if before.is_whole else before.intact_bytes
        file.content = Content(before.version, before.size_bytes + size_bytes, intact)

    def read(self, path: str) -> Work:
        """Read a file; the work returns its `Content`.

        Raises:
            NotFoundError: there is no such file.
        """
        yield self.model.read_seconds(self._file(path).content.intact_bytes)
        return self._file(path).content

    def fsync(self, path: str) -> Work:
        """Make the content of a file durable.

        Raises:
            NotFoundError: there is no such file.
        """
        self._file(path)
        yield self.model.fsync
        file = self._file(path)
        file.durable = file.content

    def fsync_directory(self) -> Work:
        """Make all creations, renames and deletions durable."""
        yield self.model.fsync
        self._names_are_durable()

    def rename(self, old: str, new: str) -> Work:
        """Give a file another name, in one moment; a file of that name is gone.

        Raises:
            NotFoundError: there is no such file.
        """
        self._file(old)
        yield self.model.latency
        file = self._file(old)
        self._rename_all({**{name: other for name, other in self._files.items() if name != old}, new: file})

    def delete(self, path: str) -> Work:
        """Remove a file.

        Raises:
            NotFoundError: there is no such file.
        """
        self._file(path)
        yield self.model.latency
        self._file(path)
        self._rename_all({name: file for name, file in self._files.items() if name != path})

    # -- what takes no time ---------------------------------------------------------------------------------------

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        return path in self._files

    def list(self) -> list[str]:
        """The names of all files, sorted."""
        return sorted(self._files)

    def content(self, path: str) -> Content:
        """What is in a file.

        Raises:
            NotFoundError: there is no such file.
        """
        return self._file(path).content

    @property
    def used_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.content.intact_bytes for file in {id(file): file for file in self._files.values()}.values())

    def discard(self, path: str) -> None:
        """Remove a file for good, also if a crash follows; one that is not there is no error."""
        for names in (self._files, self._durable_names, *self._names_changed):
            names.pop(path, None)

    # -- what befalls it ------------------------------------------------------------------------------------------

    def crash(self) -> list[Ended]:
        """Lose what was not durable, as the rules say; the result is whom to notify that its work has no effect any more."""
        survivors = [self._durable_names, *self._names_changed]
        names = survivors[int(self.stream.integers(len(survivors)))]
        self._files = {name: self._after_crash(file) for name, file in sorted(names.items())}
        self._names_are_durable()
        return self._dropped()

    def lose(self) -> list[Ended]:
        """Lose all files; the result is as of `crash`."""
        self._files = {}
        self._names_are_durable()
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

    # -- inside ---------------------------------------------------------------------------------------------------

    def _dropped(self) -> list[Ended]:
        dropped, self._jobs = self._jobs, deque()
        for job in dropped:
            job.work.close()
        return [job.ended for job in dropped]

    def _after_crash(self, file: _File) -> _File:
        left = self._torn(file.content, file.durable)
        return _File(left, left)

    def _torn(self, content: Content, durable: Content | None) -> Content:
        """The rest of a file after a crash: its durable content, or that and a prefix of later changes."""
        if content == durable:
            return content
        if durable is None or durable.version == content.version:
            start = durable.intact_bytes if durable is not None else 0
            return replace(content, intact_bytes=start + int(self.stream.integers(content.intact_bytes - start + 1)))
        # The file was replaced in place: its old content is gone, as far as the new one has reached the disk.
        kept = int(self.stream.integers(content.intact_bytes + 1))
        return replace(content, intact_bytes=kept) if kept else durable

    def _put(self, path: str, size_bytes: int) -> None:
        self._versions += 1
        content = Content(self._versions, size_bytes, self._kept(size_bytes))
        if path in self._files:
            self._files[path].content = content
        else:
            self._rename_all({**self._files, path: _File(content)})

    def _kept(self, size_bytes: int) -> int:
        """How much of a write is there in the end."""
        if not self.torn_writes:
            return size_bytes
        self.torn_writes -= 1
        return int(self.stream.integers(max(1, size_bytes)))

    def _intact_bytes(self, path: str) -> int:
        return self._files[path].content.intact_bytes if path in self._files else 0

    def _file(self, path: str) -> _File:
        if path not in self._files:
            raise NotFoundError(f"There is no file {path!r} on the disk of {self.owner}; there are: {', '.join(self.list()) or 'none'}.")
        return self._files[path]

    def _rename_all(self, files: dict[str, _File]) -> None:
        self._files = files
        self._names_changed.append(dict(files))

    def _names_are_durable(self) -> None:
        self._durable_names = dict(self._files)
        self._names_changed.clear()

    def _require_room(self, path: str, more_bytes: int) -> None:
        if not path:
            raise InvalidArgumentError("A file needs a name; got an empty one.")
        if self._full:
            raise ResourceExhaustedError(
                f"The disk of {self.owner} is full: something else has taken all of its {self.model.capacity:.0f} bytes; {path!r} was not "
                "written. Try again later, or delete old files."
            )
        if self.used_bytes + more_bytes > self.model.capacity:
            raise ResourceExhaustedError(
                f"The disk of {self.owner} has {self.model.capacity:.0f} bytes, of which {self.used_bytes} are in use; {path!r} needs "
                f"{more_bytes} more. Delete old files, or keep fewer checkpoints."
            )
