"""Files that appear whole or not at all.

What is written goes into an unfinished file beside the target, which takes the target's place when all is there. Until
then, and after any error, the old file stays as it was. A process that is killed outright leaves its unfinished file
behind; the next write of the same target takes it away. It bears the numbers of its process and of its write, so two
writers at once do not mix, and the last one to finish wins.

Taught in lesson 00.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from simdist.errors import InvalidArgumentError, ResourceExhaustedError

__all__ = ["full_disks", "remove_leftovers", "replacing", "replacing_path", "require_on_this_machine", "unfinished_path"]

ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")  # pathlib leaves one slash of two
# Windows has no quotas.
FULL = {code for code, name in errno.errorcode.items() if name in ("ENOSPC", "EDQUOT")}
ENDING = ".unfinished"
_numbers = itertools.count()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends, unless it ends with an error.

    Args:
        path: the file; directories that are missing are made. A link stays a link, to the new content.

    Yields:
        The unfinished file, for bytes.

    Raises:
        InvalidArgumentError: `path` is a directory, lies below a file, or is an address as of a cloud.
        ResourceExhaustedError: the disk is full; what `path` held before is still there.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "numbers")
        >>> with replacing(path) as file:
        ...     _ = file.write(b"123")
        ...     path.exists()
        False
        >>> path.read_bytes()
        b'123'
    """
    require_on_this_machine(path)
    target = Path(os.path.realpath(path))
    with full_disks(path):
        _prepare(target)
        if target.exists() and not target.is_file():  # a device or a pipe is written to, and never replaced
            with target.open("wb") as file:
                yield file
            return
        unfinished = unfinished_path(target)
        try:
            with _opened(unfinished) as file:
                yield file
            _take_place(target, unfinished)
        finally:
            unfinished.unlink(missing_ok=True)


@contextmanager
def replacing_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As `replacing`, for libraries that open their files themselves: a path of the same name, in a directory beside `path`.

    Args:
        path: the file that is to be replaced.

    Yields:
        The path to write to.

    Raises:
        InvalidArgumentError, ResourceExhaustedError: as `replacing`.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp(), "numbers")
        >>> with replacing_path(target) as path:
        ...     _ = path.write_bytes(b"123")
        ...     target.exists()
        False
        >>> target.read_bytes()
        b'123'
    """
    require_on_this_machine(path)
    target = Path(os.path.realpath(path))
    with full_disks(path):
        _prepare(target)
        if target.exists() and not target.is_file():
            yield target
            return
        directory = unfinished_path(target)
        directory.mkdir(exist_ok=True)
        try:
            yield directory / target.name
            _take_place(target, directory / target.name)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def require_on_this_machine(path: str | os.PathLike[str]) -> None:
    """Refuse the address of a file that is elsewhere, as programs for TensorFlow may have it: it would be a path below this directory.

    Raises:
        InvalidArgumentError: it is one.

    Example:
        >>> require_on_this_machine("backup/ckpt")
    """
    if ADDRESS.match(str(path)):
        raise InvalidArgumentError(f"{str(path)!r} is an address, and files are written and read on this machine alone. Give a path.")


def unfinished_path(target: Path) -> Path:
    """Where this process writes what will take the place of `target`: another path each time, as launched mains share a thread."""
    return target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}-{next(_numbers)}{ENDING}")


def _take_place(target: Path, unfinished: Path) -> None:
    if target.exists():
        shutil.copymode(target, unfinished)
    unfinished.replace(target)


@contextmanager
def full_disks(path: str | os.PathLike[str]) -> Iterator[None]:
    """A full disk is an error of ours, which says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise ResourceExhaustedError(
            f"{str(path)!r} could not be written, because the disk is full ({error.strerror}); a file that was there before is as "
            "it was. Make room, or give a path on another disk."
        ) from error


def _opened(path: Path) -> BinaryIO:
    return path.open("wb")


def _prepare(target: Path) -> None:
    if target.is_dir():
        raise InvalidArgumentError(f"path must name a file, such as {str(target / 'trace.json')!r}; it is a directory.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgumentError(f"path {str(target)!r} lies below a file: give a path below a directory.") from error
    remove_leftovers(target.parent, f"{target.name}.")


def remove_leftovers(directory: Path, prefix: str) -> None:
    """Remove what processes that were killed had begun to write in a directory, for targets whose names begin so."""
    for leftover in list(directory.iterdir()):
        if leftover.name.startswith(f".{prefix}") and leftover.name.endswith(ENDING) and _writer_is_gone(leftover):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)


def _writer_is_gone(unfinished: Path) -> bool:
    number = unfinished.name.removesuffix(ENDING).rpartition(".")[2].partition("-")[0]
    if not number.isdigit() or sys.platform == "win32":  # where signal 0 would end a process instead of asking for it
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
