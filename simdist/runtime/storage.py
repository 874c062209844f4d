"""The disk of a task, as drivers reach it through the wall: files by name and size, written whole, read and deleted.

A disk knows how many bytes a file has, and not which. Names are plain text: a program that keeps real files writes their sizes here, under
their paths. A file that is replaced is the old one until the new one is visible, also after a crash at any moment.

Nothing here blocks: a call begins something, and `ended` is called once when it is over. An engine without time calls it inside the call,
one with time never: always later, if in the same moment.

Taught in lesson 07.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.hardware import DiskModel

__all__ = ["Ended", "TaskDisk", "checked_file"]

Ended: TypeAlias = Callable[[BaseException | None], object]
"""Is called once: with None, or with the error that ended the operation."""


class TaskDisk(Protocol):
    """The disk of one task. It does one operation after the other."""

    @property
    def model(self) -> DiskModel:
        """Its figures."""
        ...

    @property
    def used_bytes(self) -> int:
        """Bytes of all its files."""
        ...

    def write(self, path: str, size_bytes: int, ended: Ended, parts: Mapping[str, int] | None = None) -> None:
        """Write a file whole, so that its name stands for the old content or for the new one, whatever happens.

        The parts that other tasks hold travel to this task first, side by side. Then: a temporary file, fsync, reading it back to verify,
        rename, fsync of the directory. What was torn on the way is found, and is written once more.

        Args:
            path: its name; a file of this name stays as it is until the new one is visible.
            size_bytes: of the file, 0 or more.
            ended: is called with None when the file is visible and durable, otherwise with one of

                - `ResourceExhaustedError`: the disk is full; nothing has changed.
                - `UnavailableError`: this task, or one that holds a part, is down or has died meanwhile; called at the death itself.
                  `TimedOutError`, which is one, too: a part was lost on its way.
                - `AbortedError`: three attempts in a row were torn; nothing has changed.
            parts: bytes by the name of the task that holds them; default all on this task.

        Raises:
            InvalidArgumentError: an empty name, a negative size, or a part on a task that does not exist.
            TypeError: a name that is no text, or a size that is no whole number.
        """
        ...

    def read(self, path: str, size_bytes: int, ended: Ended) -> None:
        """Take the time of reading so many bytes.

        Args:
            path: the name of the file, for the trace. It need not have been written through this disk.
            size_bytes: how many, 0 or more.
            ended: is called with None, or with `UnavailableError`: this task is down, or has died meanwhile.

        Raises:
            InvalidArgumentError, TypeError: as `write`.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove a file at once and for good; one that is not there is no error."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        ...

    def size_bytes(self, path: str) -> int:
        """Of a file that there is; 0 of one that is not there."""
        ...


def checked_file(path: object, size_bytes: object, parts: Mapping[str, int] | None, tasks: Mapping[str, object]) -> None:
    """Refuse what is no file.

    Args:
        path: its name.
        size_bytes: of the file.
        parts: bytes by task, or None.
        tasks: those that there are, by name.

    Raises:
        InvalidArgumentError: an empty name, a negative size, or a part on a task that does not exist.
        TypeError: a name that is no text, or a size that is no whole number.

    Example:
        >>> checked_file("ckpt-1", 100, {"ps:0": 60}, {"ps:0": None})
    """
    if not isinstance(path, str):
        raise TypeError(f"the name of a file is {path!r}; expected text, such as 'ckpt-1'")
    if not path:
        raise InvalidArgumentError("A file needs a name; got an empty one.")
    whole_number(size_bytes, "size_bytes", 0)
    for task, part_bytes in (parts or {}).items():
        whole_number(part_bytes, f"the part on {task}", 0)
        if task not in tasks:
            raise InvalidArgumentError(f"A part of {path!r} lies on {task!r}, and there is no such task. {did_you_mean(task, tasks)}")
