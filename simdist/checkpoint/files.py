"""The files of one checkpoint: a directory that Orbax writes and reads, with a manifest beside its files.

A checkpoint is written into a hidden directory, and takes its name when it is complete. So a directory with the name of a checkpoint is a
whole one, whatever was killed while it was written. `Orbax's own <https://orbax.readthedocs.io>`_ ``PyTreeCheckpointer().restore(path)``
reads it without simdist: the arrays in nested dicts.

Taught in lesson 09.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from simdist.checkpoint.manifest import MANIFEST, Manifest, checksum_of, read_manifest
from simdist.errors import DataLossError, InvalidArgumentError, NotFoundError
from simdist.extras import needs
from simdist.program.arrays import HostArray
from simdist.trace.atomic_file import full_disks, remove_leftovers, unfinished_path

__all__ = ["Unfinished", "read", "remove", "replace_parts"]

ArrayTree: TypeAlias = dict[str, Any]
"""Arrays in nested dicts, by the parts of their paths."""


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
        self.path = unfinished_path(target)
        with full_disks(target):
            _require_directory(target)
            self.drop()
            try:
                _orbax().save(self.path, nested({path: array for path, array in arrays.items() if array.size}))
                (self.path / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
            except BaseException:
                self.drop()
                raise

    def finish(self) -> None:
        """Let it take its name, in one moment; a checkpoint that has this name is replaced."""
        with full_disks(self.target):
            remove(self.target)
            self.path.rename(self.target)

    def drop(self) -> None:
        """Remove what there is of it."""
        shutil.rmtree(self.path, ignore_errors=True)


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
    try:
        found = _flat(_orbax().restore(path))
    except (ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:  # Orbax and TensorStore raise whatever they run into
        raise DataLossError(f"{str(path)!r} is damaged: {type(error).__name__}: {error}. Restore another checkpoint.") from error
    arrays = {name: found.get(name, np.zeros(entry.shape, entry.dtype)) for name, entry in manifest.arrays.items()}
    for name, entry in manifest.arrays.items():
        array = arrays[name]
        is_there = name in found or not array.size
        if not is_there or (array.shape, str(array.dtype), checksum_of(array)) != (entry.shape, entry.dtype, entry.checksum):
            raise DataLossError(f"{str(path)!r} is damaged: {name!r} is not what was saved. Restore another checkpoint of this directory.")
    return manifest, arrays


def remove(path: Path) -> None:
    """Remove a checkpoint: it loses its name first, so that nobody finds a part of it."""
    hidden = unfinished_path(path.with_name(f"{path.name}.old"))
    shutil.rmtree(hidden, ignore_errors=True)
    try:
        path.rename(hidden)
    except FileNotFoundError:
        return
    shutil.rmtree(hidden, ignore_errors=True)


def nested(arrays: Mapping[str, HostArray]) -> ArrayTree:
    """Arrays in nested dicts, by the parts of their paths.

    Example:
        >>> nested({"model/0": np.zeros(1), "v": np.ones(1)})
        {'model': {'0': array([0.])}, 'v': array([1.])}
    """
    tree: ArrayTree = {}
    for path, array in arrays.items():
        *parents, last = path.split("/")
        at = tree
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = array
    return tree


def replace_parts(name: str) -> str:
    """A name that is one part of a path: without the sign between parts.

    Example:
        >>> replace_parts("a/b")
        'a%2Fb'
    """
    return name.replace("%", "%25").replace("/", "%2F")


def _flat(tree: ArrayTree, prefix: str = "") -> dict[str, HostArray]:
    found: dict[str, HostArray] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}/"))
        else:
            found[prefix + name] = np.asarray(value)
    return found


def _orbax() -> Any:
    """Orbax, which takes half a second to load and has no types."""
    with needs("A checkpoint", "checkpoint"):
        import orbax.checkpoint as orbax
    logging.getLogger("absl").setLevel(max(logging.getLogger("absl").level, logging.ERROR))
    return orbax.PyTreeCheckpointer()


def _require_directory(target: Path) -> None:
    if target.is_file():
        raise InvalidArgumentError(f"A checkpoint is a directory, and {str(target)!r} is a file. Give another path.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent, f"{target.name}.")
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgumentError(f"The checkpoint {str(target)!r} lies below a file. Give a path below a directory.") from error


def _require_no_links(path: Path) -> None:
    for found in _everything_in(path):
        if found.is_symlink():
            raise InvalidArgumentError(f"{str(found)!r} is a link, which a checkpoint has not: it may lead out of its directory.")


def _everything_in(path: Path) -> Iterable[Path]:
    yield path
    for directory, names, files in os.walk(path):
        yield from (Path(directory, name) for name in (*names, *files))
