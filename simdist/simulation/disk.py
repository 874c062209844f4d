"""A task's disk in virtual time: writes take time, and a crash can lose what was not made durable.

The rules are those of a journalling file system that orders nothing by itself:

- *Data*: `write` and `append` are seen at once by every reader. In a crash, of the bytes that were not synced since, a prefix
  survives, drawn from the disk's stream. `fsync(path)` makes what is in the file durable.
- *Names*: a creation, `rename` or `delete` is seen at once. `fsync_directory()` makes all of them durable. In a crash the first few of
  those that were not survive (in their order), and the others never happened.
- Data and names are independent: a file whose name survived may be empty. So the only safe way to replace a file is: write
  a temporary one, fsync it, rename it, fsync the directory. Then there is the old or the new content, whole.

A disk does one operation after the other. An operation whose task died while it waited has no effect. There is one flat
directory; a path is a name.

Not simulated: blocks, write-back in the background, caches that survive the crash of a process only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simdist.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from simdist.hardware.disks import DiskModel
from simdist.simulation.kernel import Clock, TaskKilled

__all__ = ["Disk"]


@dataclass
class _File:
    content: bytes
    durable: bytes = b""  # what a crash leaves at least, if it still begins the content


class Disk:
    """The files of one task.

    Args:
        clock: whose time passes.
        model: the disk's figures.
        owner: whose disk it is, for messages.
        stream: decides how much of what was not durable survives a crash.
        alive: whether the process that asked is still the one that runs; asked when an operation is over.

    Example:
        >>> disk = Disk(Clock(), DiskModel(write_bandwidth=1e6, latency=0.0), "worker:0", np.random.default_rng(0))
        >>> disk.write("model", b"x" * 1000)
        >>> disk.clock.now, disk.used_bytes
        (0.001, 1000)
        >>> disk.fsync("model")
        >>> disk.fsync_directory()
        >>> disk.append("model", b"y" * 1000)
        >>> disk.crash()
        >>> disk.read("model").startswith(b"x" * 1000)
        True
    """

    def __init__(
        self, clock: Clock, model: DiskModel, owner: str, stream: np.random.Generator, alive: Callable[[], bool] = lambda: True
    ) -> None:
        self.clock = clock
        self.model = model
        self.owner = owner
        self.stream = stream
        self.alive = alive
        self.free_s = 0.0
        self._files: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._names_changed: list[dict[str, _File]] = []  # the directory after each change that is not durable

    # -- what takes time ------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes) -> None:
        """Create a file, or replace what is in it.

        Raises:
            ResourceExhaustedError: there is not enough room; nothing has changed.
        """
        self._require_room(path, len(data) - len(self._content(path)))
        self._take(self.model.write_seconds(len(data)))
        self._require_room(path, len(data) - len(self._content(path)))
        if path in self._files:
            self._files[path].content = bytes(data)
        else:
            self._rename_all({**self._files, path: _File(bytes(data))})

    def append(self, path: str, data: bytes) -> None:
        """Add bytes at the end of a file, which is made if it is not there.

        Raises:
            ResourceExhaustedError: there is not enough room; nothing has changed.
        """
        self._require_room(path, len(data))
        self._take(self.model.write_seconds(len(data)))
        self._require_room(path, len(data))
        if path in self._files:
            self._files[path].content += data
        else:
            self._rename_all({**self._files, path: _File(bytes(data))})

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            NotFoundError: there is no such file.
        """
        self._take(self.model.read_seconds(len(self._file(path).content)))
        return self._file(path).content

    def fsync(self, path: str) -> None:
        """Make the content of a file durable.

        Raises:
            NotFoundError: there is no such file.
        """
        self._file(path)
        self._take(self.model.fsync)
        file = self._file(path)
        file.durable = file.content

    def fsync_directory(self) -> None:
        """Make all creations, renames and deletions durable."""
        self._take(self.model.fsync)
        self._durable_names = dict(self._files)
        self._names_changed.clear()

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one moment; a file of that name is gone.

        Raises:
            NotFoundError: there is no such file.
        """
        self._file(old)
        self._take(self.model.latency)
        file = self._file(old)
        self._rename_all({**{name: other for name, other in self._files.items() if name != old}, new: file})

    def delete(self, path: str) -> None:
        """Remove a file.

        Raises:
            NotFoundError: there is no such file.
        """
        self._file(path)
        self._take(self.model.latency)
        self._file(path)
        self._rename_all({name: file for name, file in self._files.items() if name != path})

    # -- what takes none ------------------------------------------------------------------------------------------

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        return path in self._files

    def list(self) -> list[str]:
        """The names of all files, sorted."""
        return sorted(self._files)

    @property
    def used_bytes(self) -> int:
        """Bytes of all files."""
        return sum(len(file.content) for file in {id(file): file for file in self._files.values()}.values())

    def crash(self) -> None:
        """Lose what was not durable, as the rules say."""
        survivors = [self._durable_names, *self._names_changed]
        names = survivors[int(self.stream.integers(len(survivors)))]
        self._files = {name: _File(self._torn(file), b"") for name, file in sorted(names.items())}
        for file in self._files.values():
            file.durable = file.content
        self._durable_names = dict(self._files)
        self._names_changed.clear()
        self.free_s = self.clock.now

    def _torn(self, file: _File) -> bytes:
        """The rest of a file after a crash: its durable content, or that and a prefix of later changes."""
        if file.content == file.durable:
            return file.content
        if file.content.startswith(file.durable):
            start = len(file.durable)
            return file.content[: start + int(self.stream.integers(len(file.content) - start + 1))]
        # The file was replaced in place: its old content is gone, as far as the new one has reached the disk.
        kept = int(self.stream.integers(len(file.content) + 1))
        return file.content[:kept] if kept else file.durable

    # -- inside ---------------------------------------------------------------------------------------------------

    def _take(self, seconds: float) -> None:
        """Wait until the disk has done the earlier work, and this."""
        start = max(self.clock.now, self.free_s)
        self.free_s = start + seconds
        self.clock.sleep(self.free_s - self.clock.now)
        if not self.alive():
            raise TaskKilled(f"{self.owner} is dead")

    def _content(self, path: str) -> bytes:
        return self._files[path].content if path in self._files else b""

    def _file(self, path: str) -> _File:
        if path not in self._files:
            raise NotFoundError(f"There is no file {path!r} on the disk of {self.owner}; there are: {', '.join(self.list()) or 'none'}.")
        return self._files[path]

    def _rename_all(self, files: dict[str, _File]) -> None:
        self._files = files
        self._names_changed.append(dict(files))

    def _require_room(self, path: str, more_bytes: int) -> None:
        if not path:
            raise InvalidArgumentError("A file needs a name; got an empty one.")
        if self.used_bytes + more_bytes > self.model.capacity:
            raise ResourceExhaustedError(
                f"The disk of {self.owner} has {self.model.capacity:.0f} bytes, of which {self.used_bytes} are in use; {path!r} needs "
                f"{more_bytes} more. Delete old files, or keep fewer checkpoints."
            )
