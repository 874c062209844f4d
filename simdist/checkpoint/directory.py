"""What a directory holds: which checkpoints, in which order they were saved, and the newest.

The directory itself says so: what has the name of a checkpoint is a whole one, and its manifest has its place in the order. There is no
list beside it that could disagree.

Taught in lesson 09.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from simdist.checkpoint.manifest import MANIFEST, read_manifest
from simdist.errors import DataLossError, InvalidArgumentError

__all__ = ["Found", "found_in", "latest_checkpoint"]

NAME = re.compile(r"^(?P<prefix>(?!\.).*)-(?P<number>\d+)$")


@dataclass(frozen=True)
class Found:
    """A checkpoint in a directory.

    Attributes:
        prefix, number: of its name, ``prefix-number``.
        sequence: its place in the order of saving.
        saved_s: the virtual second of its values.
    """

    path: Path
    prefix: str
    number: int
    sequence: int
    saved_s: float


def latest_checkpoint(checkpoint_dir: str | os.PathLike[str]) -> str | None:
    """The path of the checkpoint in a directory that was saved last.

    Args:
        checkpoint_dir: where `Checkpoint.save` or a `CheckpointManager` saves.

    Returns:
        The path; None where the directory has no checkpoint, or does not exist.

    Raises:
        InvalidArgumentError: it is a file.

    Example:
        >>> import tempfile
        >>> import simdist as sd
        >>> directory = tempfile.mkdtemp()
        >>> sd.latest_checkpoint(directory) is None
        True
        >>> path = sd.Checkpoint(v=sd.Variable(1.0)).save(directory + "/ckpt")
        >>> sd.latest_checkpoint(directory) == path == directory + "/ckpt-1"
        True
    """
    found = found_in(Path(checkpoint_dir))
    return str(found[-1].path) if found else None


def found_in(directory: Path, prefix: str | None = None) -> list[Found]:
    """The checkpoints of a directory, in the order in which they were saved; those of one prefix only, where one is given."""
    if directory.is_file():
        raise InvalidArgumentError(f"{str(directory)!r} is a file; expected the directory of the checkpoints.")
    if not directory.is_dir():
        return []
    found = [_found(path) for path in directory.iterdir() if (path / MANIFEST).is_file() and not path.is_symlink()]
    named = [one for one in found if one is not None and prefix in (None, one.prefix)]
    return sorted(named, key=lambda one: (one.sequence, one.number))


def _found(path: Path) -> Found | None:
    """A checkpoint by its name and its manifest; None of what is damaged, or not ours to read."""
    match = NAME.match(path.name)
    if match is None:
        return None
    try:
        manifest = read_manifest(path)
    except (DataLossError, InvalidArgumentError, OSError):
        return None
    return Found(path, match["prefix"], int(match["number"]), manifest.sequence, manifest.saved_s)
