"""The files of one disk, and what a crash leaves of them. Nothing here takes time.

Of each file is known its size and how much of it is intact, and not the bytes. The rules are those of a journalling file system that
orders nothing by itself:

- *Data*: what `put` and `append` do is seen at once by every reader. In a crash, of the bytes that were not synced since, a prefix
  survives, drawn from the disk's stream. `fsync(path)` makes what is in the file durable.
- *Names*: a creation, `rename` or `delete` is seen at once. `fsync_directory()` makes all of them durable. In a crash the first few of
  those that were not survive (in their order), and the others never happened.
- Data and names are independent: a file whose name survived may be empty. So the only safe way to replace a file is: write
  a temporary one, fsync it, rename it, fsync the directory. Then there is the old or the new content, whole.

There is one flat directory; a path is a name.

Not simulated: blocks, write-back in the background, caches that survive the crash of a process only.

Taught in lesson 07.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simdist.errors import NotFoundError

__all__ = ["Content", "Files"]


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


class Files:
    """The files of one disk.

    Args:
        owner: whose disk it is, for messages.
        stream: decides how much of what was not durable survives a crash.

    Example:
        >>> files = Files("worker:0", np.random.default_rng(0))
        >>> files.put("model", 1000, 1000)
        >>> files.fsync("model")
        >>> files.fsync_directory()
        >>> files.append("model", 1000, 1000)
        >>> files.crash()
        >>> 1000 <= files.content("model").intact_bytes <= 2000
        True
    """

    def __init__(self, owner: str, stream: np.random.Generator) -> None:
        self.owner = owner
        self.stream = stream
        self._versions = 0
        self._files: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._names_changed: list[dict[str, _File]] = []  # the directory after each change that is not durable

    # -- reading --------------------------------------------------------------------------------------------------

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

    # -- changes --------------------------------------------------------------------------------------------------

    def put(self, path: str, size_bytes: int, intact_bytes: int) -> None:
        """Create a file, or replace what is in it; only the first `intact_bytes` are there."""
        self._versions += 1
        content = Content(self._versions, size_bytes, intact_bytes)
        if path in self._files:
            self._files[path].content = content
        else:
            self._change_names({**self._files, path: _File(content)})

    def append(self, path: str, size_bytes: int, intact_bytes: int) -> None:
        """Add bytes at the end of a file, which is made if it is not there."""
        if path not in self._files:
            self.put(path, size_bytes, intact_bytes)
            return
        file = self._files[path]
        before = file.content
        intact = before.intact_bytes + intact_bytes if before.is_whole else before.intact_bytes
        file.content = Content(before.version, before.size_bytes + size_bytes, intact)

    def fsync(self, path: str) -> None:
        """Make the content of a file durable.

        Raises:
            NotFoundError: there is no such file.
        """
        file = self._file(path)
        file.durable = file.content

    def fsync_directory(self) -> None:
        """Make all creations, renames and deletions durable."""
        self._durable_names = dict(self._files)
        self._names_changed.clear()

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one moment; a file of that name is gone.

        Raises:
            NotFoundError: there is no such file.
        """
        file = self._file(old)
        self._change_names({**{name: other for name, other in self._files.items() if name != old}, new: file})

    def delete(self, path: str) -> None:
        """Remove a file.

        Raises:
            NotFoundError: there is no such file.
        """
        self._file(path)
        self._change_names({name: file for name, file in self._files.items() if name != path})

    def discard(self, path: str) -> None:
        """Remove a file for good, also if a crash follows; one that is not there is no error."""
        for names in (self._files, self._durable_names, *self._names_changed):
            names.pop(path, None)

    # -- what befalls them ----------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Lose what was not durable, as the rules say."""
        survivors = [self._durable_names, *self._names_changed]
        names = survivors[int(self.stream.integers(len(survivors)))]
        self._files = {name: self._after_crash(file) for name, file in sorted(names.items())}
        self.fsync_directory()

    def lose(self) -> None:
        """Lose everything."""
        self._files = {}
        self.fsync_directory()

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

    # -- inside ---------------------------------------------------------------------------------------------------

    def _file(self, path: str) -> _File:
        if path not in self._files:
            raise NotFoundError(f"There is no file {path!r} on the disk of {self.owner}; there are: {', '.join(self.list()) or 'none'}.")
        return self._files[path]

    def _change_names(self, files: dict[str, _File]) -> None:
        self._files = files
        self._names_changed.append(dict(files))
