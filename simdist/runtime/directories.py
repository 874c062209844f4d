"""The real directories of a cluster: one temporary directory for the storage that all tasks share, and one for the disk of each task.

They hold what programs write with the file operations of Python, and are deleted with the cluster, closed or not. When a task's disk is
lost, what is in its directories is deleted, and the directories themselves stay.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import cast

from simdist.arguments import shown
from simdist.errors import InvalidArgumentError

__all__ = ["Directories"]

MOST_BYTES = 255  # of one part of a path, on usual file systems


class Directories:
    """The directories of one cluster.

    Example:
        >>> directories = Directories()
        >>> backup = Path(directories.directory("backup", "worker:0"))
        >>> _ = (backup / "model").write_text("weights")
        >>> directories.empty("worker:0")
        >>> list(backup.iterdir())
        []
        >>> directories.close()
        >>> backup.exists()
        False
    """

    def __init__(self) -> None:
        self._disks: dict[str | None, Path] = {}
        self._deletions: list[weakref.finalize[..., Directories]] = []
        self._handed_out: dict[str, dict[Path, None]] = {}

    def has(self, task: str) -> bool:
        """Whether there is a directory on the disk of a task."""
        return task in self._disks

    def directory(self, name: str, task: str | None) -> str:
        """A directory on the disk of a task; None: on shared storage.

        Raises:
            InvalidArgumentError: the name leads out of the disk, or names none of its directories.
            TypeError: it is no text.
        """
        if not isinstance(cast("object", name), str):
            raise TypeError(f"the name of a directory is {shown(name)}; expected text, such as 'backup'")
        if "\0" in name or any(len(os.fsencode(part)) > MOST_BYTES for part in Path(name).parts):
            raise InvalidArgumentError(
                f"cluster.directory({shown(name)}) is no name of a directory: it has a null character, or a part of more than "
                f"{MOST_BYTES} bytes. Give a short one, such as 'backup'."
            )
        if task not in self._disks:
            self._disks[task] = Path(tempfile.mkdtemp(prefix="simdist-"))
            # No TemporaryDirectory, which warns of clusters that nobody has closed.
            self._deletions.append(weakref.finalize(self, shutil.rmtree, self._disks[task], ignore_errors=True))
        root = self._disks[task]
        path = root / name
        # Resolved, so that neither ".." nor a link leads out.
        if path.resolve() == root.resolve():
            raise InvalidArgumentError(
                f"cluster.directory({name!r}) is the whole disk of the cluster. Give the name of a directory on it, such as 'backup'."
            )
        if not path.resolve().is_relative_to(root.resolve()):
            raise InvalidArgumentError(
                f"cluster.directory({name!r}) lies outside of the cluster's disk. Give a relative name without '..', such as 'backup'; for "
                "a directory that outlives the cluster, use its path itself."
            )
        path.mkdir(parents=True, exist_ok=True)
        if task is not None:
            self._handed_out.setdefault(task, {})[path] = None
        return str(path)

    def task_of(self, path: str | os.PathLike[str], task: str) -> str:
        """The task on whose disk a path lies; where it lies on none, the task that uses it.

        Example:
            >>> directories = Directories()
            >>> saved = directories.directory("saved", "worker:0")
            >>> directories.task_of(f"{saved}/ckpt-1", "chief:0"), directories.task_of("/elsewhere", "chief:0")
            ('worker:0', 'chief:0')
        """
        found = Path(path).resolve()
        return next((name for name, root in self._disks.items() if name is not None and found.is_relative_to(root.resolve())), task)

    def empty(self, task: str) -> None:
        """Delete what is in the directories of a task, which stay."""
        for entry in self._disks[task].iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        for path in self._handed_out.get(task, ()):
            path.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Delete all of them."""
        for delete in self._deletions:
            delete()
