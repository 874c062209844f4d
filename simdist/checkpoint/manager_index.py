"""What a manager keeps beside its checkpoints: which of them it manages, and which stay for ever.

It is an aid, and no truth: a checkpoint that it does not list, but that is newer than all of those, is managed, too; one that is listed and
is not there is none. Those that stay for ever are never removed, also where they are the newest that are left. Where the index is missing
or damaged, all checkpoints of the directory are managed. Several managers of one directory and one name each remove what they have saved
or found; what others manage stays in the index, so that the next manager has all.

Taught in lesson 09.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from simdist.checkpoint.directory import found_in
from simdist.checkpoint.rotation import Entry, Rotation
from simdist.trace.atomic_file import replacing

__all__ = ["recover", "remove_index", "write_index"]


def write_index(directory: Path, prefix: str, rotation: Rotation, let_go: Collection[str] = ()) -> None:
    """Write down what a rotation knows, and keep what other managers have written.

    Args:
        directory, prefix: of the checkpoints.
        rotation: of this manager.
        let_go: names that it has managed until now.
    """
    there, index = {path.name for path in directory.iterdir()}, _read(_path(directory, prefix)) or {}
    of_others = (there - {*rotation.names, *let_go}) & _names(index, "managed")
    kept = there & (_names(index, "kept") - {*rotation.names} | rotation.kept)
    content = {"managed": [*sorted(of_others), *rotation.names], "kept": sorted(kept), "last_kept_s": rotation.last_kept_s}
    with replacing(_path(directory, prefix)) as file:
        file.write(json.dumps(content).encode())


def remove_index(directory: Path, prefix: str) -> None:
    """Forget what was written down."""
    _path(directory, prefix).unlink(missing_ok=True)


def recover(directory: Path, prefix: str, rotation: Rotation) -> None:
    """Let a rotation know what an earlier manager has left in the directory."""
    found = found_in(directory, prefix)
    index = _read(_path(directory, prefix))
    if index is not None:
        managed = _names(index, "managed")
        rotation.kept = _names(index, "kept")
        last = max((place for place, one in enumerate(found) if one.path.name in managed), default=-1)
        found = [one for place, one in enumerate(found) if one.path.name in managed or place > last]
        kept_s = index.get("last_kept_s")
        if isinstance(kept_s, float) and math.isfinite(kept_s):
            rotation.last_kept_s = kept_s
    rotation.recovered([Entry(one.path.name, one.saved_s) for one in found])


def _names(index: Mapping[str, Any], key: str) -> set[str]:
    names = index.get(key)
    return set(map(str, cast("list[object]", names))) if isinstance(names, list) else set()


def _path(directory: Path, prefix: str) -> Path:
    return directory / f"{prefix}.index.json"


def _read(path: Path) -> Mapping[str, Any] | None:
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else None
