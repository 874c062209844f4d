"""The files of one checkpoint: a directory that Orbax writes and reads, with a manifest beside its files.

A checkpoint is written in a hidden directory, and takes its name when it is complete. So a directory with the name of a checkpoint is a
whole one, whatever was killed while it was written. `Orbax's own <https://orbax.readthedocs.io>`_ ``PyTreeCheckpointer().restore(path)``
reads it without simdist: the arrays in nested dicts.

Taught in lesson 09.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from simdist.checkpoint.manifest import MANIFEST, Manifest, checksum_of, read_manifest
from simdist.checkpoint.paths import ArrayTree, flattened, nested
from simdist.errors import DataLossError, InvalidArgumentError, NotFoundError, UnavailableError
from simdist.extras import needs
from simdist.interrupts import delayed_interrupts
from simdist.program.arrays import HostArray
from simdist.trace.atomic_file import full_disks, remove_leftovers, unfinished_path

__all__ = ["Unfinished", "read", "remove"]


CHUNK_BYTES = 1 << 20


class Unfinished:
    """A checkpoint that is being written: its files are there, under another name.

    Args:
        target: the directory that it will be.
        arrays: by path; those without elements are in the manifest only.
        manifest: of it.

    Raises:
        InvalidArgumentError: the target is a file, or lies below one.
        ResourceExhaustedError: the machine's disk is full.
        ModuleNotFoundError: Orbax is not installed.
    """

    def __init__(self, target: Path, arrays: Mapping[str, HostArray], manifest: Manifest) -> None:
        self.target = target
        self._around = unfinished_path(target)
        with full_disks(target):
            _require_directory(target)
            try:
                # Orbax has threads that would write on after Ctrl-C, into a directory that is removed.
                with delayed_interrupts():
                    self._around.mkdir()  # Orbax, too, writes beside the path that it is given
                    _save(self._complete, nested({path: array for path, array in arrays.items() if array.size}))
                    complete = replace(manifest, files=_checksum_of_files(self._complete))
                    (self._complete / MANIFEST).write_text(complete.to_json(), encoding="utf-8")
            except BaseException:
                self.drop()
                raise

    @property
    def _complete(self) -> Path:
        return self._around / "complete"

    def finish(self) -> None:
        """Let it take its name, in one moment; a checkpoint that has this name is replaced.

        Raises:
            UnavailableError: its files are gone, as those of a disk that is lost with its machine.
            OSError: it cannot have this name; a checkpoint that has it is as it was.
        """
        if not self._complete.is_dir():
            raise UnavailableError(
                f"The checkpoint {str(self.target)!r} was lost while it was written: its unfinished files are gone, as when the disk on "
                "which they lie is lost with its machine. Save again; storage that all tasks share, cluster.directory(name), is never lost."
            )
        before = self._around / "before"
        try:
            with full_disks(self.target):
                _renamed(self.target, before)
                self._complete.rename(self.target)
        except BaseException:
            if not self.target.exists():
                _renamed(before, self.target)
            raise
        finally:
            self.drop()

    def drop(self) -> None:
        """Remove what there is of it."""
        shutil.rmtree(self._around, ignore_errors=True)


def read(path: Path) -> tuple[Manifest, dict[str, HostArray]]:
    """What a checkpoint holds: its manifest, and its arrays by path.

    Raises:
        NotFoundError: there is none.
        InvalidArgumentError: it is no checkpoint of simdist, or a link in it leads elsewhere.
        DataLossError: it is damaged.
    """
    if not path.is_dir():
        raise NotFoundError(
            f"There is no checkpoint {str(path)!r}. Give a path that Checkpoint.save returned; sd.latest_checkpoint(directory) finds the "
            "newest of a directory."
        )
    _require_no_links(path)
    manifest = read_manifest(path)
    if _checksum_of_files(path) != manifest.files:  # what is damaged never gets to Orbax
        raise DataLossError(f"{str(path)!r} is damaged: its files are not what was saved. Restore another checkpoint of this directory.")
    try:
        with _unlogged(), delayed_interrupts():
            found = flattened(_orbax().restore(path.absolute()))
    except (ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:  # Orbax and TensorStore raise whatever they run into
        raise DataLossError(f"{str(path)!r} is damaged: {type(error).__name__}: {error}. Restore another checkpoint.") from error
    arrays = {
        name: found[name] if entry.size_bytes else np.zeros(entry.shape, entry.dtype)
        for name, entry in manifest.arrays.items()
        if name in found or not entry.size_bytes
    }
    for name, entry in manifest.arrays.items():
        array = arrays.get(name)
        if array is None or (array.shape, str(array.dtype), checksum_of(array)) != (entry.shape, entry.dtype, entry.checksum):
            raise DataLossError(f"{str(path)!r} is damaged: {name!r} is not what was saved. Restore another checkpoint of this directory.")
    return manifest, arrays


def remove(path: Path) -> None:
    """Remove a checkpoint: it loses its name first, so that nobody finds a part of it."""
    hidden = unfinished_path(path)
    if _renamed(path, hidden):
        shutil.rmtree(hidden, ignore_errors=True)


def _renamed(path: Path, new: Path) -> bool:
    """Rename a directory, if it is there."""
    try:
        path.rename(new)
    except FileNotFoundError:
        return False
    return True


def _save(path: Path, tree: ArrayTree) -> None:
    """Let Orbax write.

    Raises:
        ResourceExhaustedError: the machine's disk is full.
    """
    try:
        with _unlogged():
            _orbax().save(path.absolute(), tree)
    except (ValueError, RuntimeError) as error:  # TensorStore says it in words of its own
        if "RESOURCE_EXHAUSTED" in str(error) or os.strerror(errno.ENOSPC) in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def _orbax() -> Any:
    """Orbax, which takes half a second to load and has no types."""
    with needs("A checkpoint", "checkpoint"):
        import orbax.checkpoint as orbax
    return orbax.PyTreeCheckpointer()


@contextmanager
def _unlogged() -> Iterator[None]:
    """Let Orbax write no log: what it runs into is raised."""
    log = logging.getLogger("absl")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def _require_directory(target: Path) -> None:
    if target.is_file():
        raise InvalidArgumentError(f"A checkpoint is a directory, and {str(target)!r} is a file. Give another path.")
    if target.is_dir() and not (target / MANIFEST).is_file() and any(target.iterdir()):
        raise InvalidArgumentError(
            f"{str(target)!r} is a directory with other things than a checkpoint, and would be replaced by it. Give another path."
        )
    if "[" in str(target.absolute()):
        raise InvalidArgumentError(f"Orbax takes the brackets of {str(target.absolute())!r} for a pattern. Give a path without them.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent, f"{target.name}.")
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgumentError(f"The checkpoint {str(target)!r} lies below a file. Give a path below a directory.") from error


def _require_no_links(path: Path) -> None:
    for found in _everything_in(path):
        if found.is_symlink():
            raise InvalidArgumentError(f"{str(found)!r} is a link, which a checkpoint has not: it may lead out of its directory.")


def _checksum_of_files(directory: Path) -> str:
    """One checksum of the names and the contents of the files of a checkpoint, but for its manifest and for hidden files."""
    total = 0
    names = {path.relative_to(directory).as_posix(): path for path in _everything_in(directory) if path.is_file()}
    for name in sorted(name for name in names if name != MANIFEST and not names[name].name.startswith(".")):
        total = crc32(name.encode(), total)
        with names[name].open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                total = crc32(chunk, total)
    return f"{total:08x}"


def _everything_in(path: Path) -> Iterable[Path]:
    yield path
    for directory, names, files in os.walk(path):
        yield from (Path(directory, name) for name in (*names, *files))
