"""What a manager keeps beside its checkpoints: which of them it manages, and which stay for ever.

It is an aid, and no truth: a checkpoint that it does not list, but that is newer than all of those, is managed, too; one that is listed and
is not there is none. Where the index is missing or damaged, all checkpoints of the directory are managed. Several managers of one directory
and one name each remove what they have saved or found; what others manage stays in the index, so that the next manager has all.

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
    of_others = {path.name for path in directory.iterdir()} - {*rotation.names, *let_go}
    of_others &= set(_managed(_read(_path(directory, prefix)) or {}))
    content = {"managed": [*sorted(of_others), *rotation.names], "last_kept_s": rotation.last_kept_s}
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
        managed = set(_managed(index))
        last = max((place for place, one in enumerate(found) if one.path.name in managed), default=-1)
        found = [one for place, one in enumerate(found) if one.path.name in managed or place > last]
        kept_s = index.get("last_kept_s")
        if isinstance(kept_s, float) and math.isfinite(kept_s):
            rotation.last_kept_s = kept_s
    rotation.recovered([Entry(one.path.name, one.saved_s) for one in found])


def _managed(index: Mapping[str, Any]) -> list[str]:
    names = index.get("managed")
    return list(map(str, cast("list[object]", names))) if isinstance(names, list) else []


def _path(directory: Path, prefix: str) -> Path:
    return directory / f"{prefix}.index.json"


def _read(path: Path) -> Mapping[str, Any] | None:
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else None
