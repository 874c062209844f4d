"""What a directory holds: which checkpoints, in which order they were saved, and the newest.

The directory itself says so: what has the name of a checkpoint is a whole one, and its manifest has its place in the order. There is no
list beside it that could disagree. One whose manifest cannot be read is a checkpoint all the same: who restores it gets the error.

Taught in lesson 09.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simdist.caches import bounded
from simdist.checkpoint.manifest import MANIFEST, read_manifest
from simdist.errors import DataLossError, InvalidArgumentError
from simdist.trace.atomic_file import require_on_this_machine

__all__ = ["Found", "found_in", "latest_checkpoint", "newest_number"]

MOST_KNOWN = 4096
NAME = re.compile(r"^(?P<prefix>(?!\.).*)-(?P<number>\d+)$")


@dataclass(frozen=True)
class Found:
    """A checkpoint in a directory.

    Attributes:
        prefix, number: of its name, ``prefix-number``.
        sequence: its place in the order of saving; of one that is damaged, after those with smaller numbers.
        saved_s: the virtual second of its values; 0 of one that is damaged.
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
        The path; None where the directory has no checkpoint, or does not exist. It may be damaged: `Checkpoint.restore` says so.

    Raises:
        InvalidArgumentError: it is a file, or an address as of a cloud.

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
    require_on_this_machine(checkpoint_dir)
    found = found_in(Path(checkpoint_dir))
    return str(found[-1].path) if found else None


def found_in(directory: Path, prefix: str | None = None) -> list[Found]:
    """The checkpoints of a directory, in the order in which they were saved; those of one prefix only, where one is given."""
    if directory.is_file():
        raise InvalidArgumentError(f"{str(directory)!r} is a file; expected the directory of the checkpoints.")
    if not directory.is_dir():
        return []
    paths = [path for path in directory.iterdir() if not path.is_symlink() and _has_manifest(path)]
    named = [one for one in map(_found, paths) if one is not None and prefix in (None, one.prefix)]
    whole = [one for one in named if one.sequence >= 0]
    return sorted([one if one.sequence >= 0 else _placed(one, whole) for one in named], key=lambda one: (one.sequence, one.number))


def _has_manifest(path: Path) -> bool:
    return (path / MANIFEST).is_file() and not (path / MANIFEST).is_symlink()


def newest_number(directory: Path, prefix: str, under_way: Iterable[Path] = ()) -> int:
    """The highest number that is taken in a directory, by a checkpoint or by anything else with such a name; 0 where none is.

    Args:
        directory: of the checkpoints.
        prefix: of their names.
        under_way: checkpoints that are being written, here or elsewhere.
    """
    there = [*directory.iterdir()] if directory.is_dir() else []
    matches = [NAME.match(path.name) for path in [*there, *(path for path in under_way if path.parent == directory)]]
    return max([int(match["number"]) for match in matches if match is not None and match["prefix"] == prefix], default=0)


def _found(path: Path) -> Found | None:
    """A checkpoint by its name and its manifest; without a place where that cannot be read."""
    match = NAME.match(path.name)
    if match is None:
        return None
    try:
        sequence, saved_s = _order(path, _identity(path / MANIFEST))
    except (DataLossError, InvalidArgumentError, OSError):
        sequence, saved_s = -1, 0.0
    return Found(path, match["prefix"], int(match["number"]), sequence, saved_s)


def _identity(path: Path) -> tuple[int, ...]:
    """What tells a file from each other one, and from what it was before it was written again."""
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


@bounded("orders of checkpoints", size=MOST_KNOWN)
def _order(path: Path, identity: tuple[int, ...]) -> tuple[int, float]:
    """Of a checkpoint its place in the order of saving, and its second. Each save asks for those of all others, and a manifest is long."""
    manifest = read_manifest(path)
    return manifest.sequence, manifest.saved_s


def _placed(damaged: Found, whole: Sequence[Found]) -> Found:
    before = [one.sequence for one in whole if one.prefix == damaged.prefix and one.number < damaged.number]
    return replace(damaged, sequence=max(before, default=0))
