"""The manifest of a checkpoint: what it holds, with checksums of each array, of all files, and of itself.

It is JSON beside the files of Orbax. It names no files, so nothing in it can lead out of the directory.

Taught in lesson 09.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np

from simdist.errors import DataLossError, InvalidArgumentError
from simdist.program.arrays import HostArray
from simdist.program.saved_parts import SavedState

__all__ = ["COUNTERS", "MANIFEST", "VERSION", "ArrayEntry", "Manifest", "checksum_of", "read_manifest"]

MANIFEST = "simdist.json"
FORMAT = "simdist checkpoint"
VERSION = 1
COUNTERS = "simdist/counters"
"""Where a checkpoint keeps its own state: its number of saves, and the random streams."""
MAX_AXES = 32
LABEL_PARTS = 5
"""So many texts has the label of a slot."""
KINDS: dict[str, type | tuple[type, ...]] = {
    "number": int,
    "sequence": int,
    "saved_s": (int, float),
    "aliases": dict,
    "states": dict,
    "replicas": dict,
    "files": str,
}
"""The types of what is in a manifest beside the arrays."""
LARGEST_BYTES = 64 << 20
"""Of a manifest; a larger file is none."""


@dataclass(frozen=True)
class ArrayEntry:
    """What a manifest says of an array.

    Attributes:
        shape, dtype: of the array.
        checksum: of its bytes; CRC-32, which finds damage, and no forgery.
        name: what its owner calls it, for people.
    """

    shape: tuple[int, ...]
    dtype: str
    checksum: str
    name: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint holds.

    Attributes:
        number: of the checkpoint, as in its name; 0 of one that was written without.
        sequence: counts the checkpoints of a directory in the order in which they were saved.
        saved_s: the virtual second at which it was complete.
        arrays: by path.
        aliases: other paths of arrays, by these.
        states: plain data by path: of each main, such as the position of its iterator; under `COUNTERS` that of the checkpoint itself.
        replicas: of arrays with replica-local values: how many, by path.
        files: checksum of the files beside the manifest.
    """

    number: int
    sequence: int
    saved_s: float
    arrays: Mapping[str, ArrayEntry]
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    states: Mapping[str, SavedState] = field(default_factory=dict[str, SavedState])
    replicas: Mapping[str, int] = field(default_factory=dict[str, int])
    files: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(entry.size_bytes for entry in self.arrays.values())

    def to_json(self) -> str:
        """As a text, which begins with its own checksum."""
        body = asdict(self)
        return json.dumps({"format": FORMAT, "version": VERSION, "checksum": _of_body(body), "body": body}, indent=1)


def checksum_of(array: HostArray) -> str:
    """The checksum of an array's bytes.

    Example:
        >>> checksum_of(np.arange(3)) == checksum_of(np.arange(3)), checksum_of(np.arange(3)) == checksum_of(np.arange(1, 4))
        (True, False)
    """
    return f"{crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data):08x}"


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a checkpoint.

    Raises:
        InvalidArgumentError: the directory is no checkpoint of simdist, or one of a later version.
        DataLossError: the manifest is damaged.
    """
    path = directory / MANIFEST
    if not path.is_file() or path.is_symlink():
        raise InvalidArgumentError(
            f"{str(directory)!r} is no checkpoint of simdist: it has no {MANIFEST}. Give a path that Checkpoint.save returned, or what "
            "sd.latest_checkpoint finds in a directory."
        )
    if path.stat().st_size > LARGEST_BYTES:
        raise DataLossError(f"{str(path)!r} has {path.stat().st_size} bytes, and cannot be a manifest. Restore another checkpoint.")
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        kind, version = found["format"], found["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path) from error
    if kind != FORMAT or version != VERSION:
        raise InvalidArgumentError(
            f"{str(directory)!r} has the format {kind!r}, version {version!r}; this simdist reads {FORMAT!r}, version "
            f"{VERSION}. Read it with the simdist that wrote it."
        )
    return _checked(path, found)


def _checked(path: Path, found: Mapping[str, Any]) -> Manifest:
    try:
        body: dict[str, Any] = found["body"]
        if found["checksum"] != _of_body(body):
            raise _damaged(path)
        entries = cast("dict[str, dict[str, Any]]", body["arrays"])
        arrays = {name: _array_entry(entry) for name, entry in entries.items()}
        _require(all(isinstance(body[name], kind) and not isinstance(body[name], bool) for name, kind in KINDS.items()))
        _require(math.isfinite(body["saved_s"]) and all(map(_is_count, body["replicas"].values())))
        _require(all(isinstance(one, str) for one in body["aliases"].values()))
        _require(all(isinstance(of_mains, list) and of_mains for path, of_mains in body["states"].items() if path != COUNTERS))
        counters: dict[str, Any] = body["states"].get(COUNTERS, {"save_counter": 0, "draws": {}})
        _require(all(map(_is_rules, counters.get("rules", {}).values())))
        _require(all(map(_is_label, counters.get("slots", {}).values())))
        _require(_is_count(counters["save_counter"]) and all(map(_is_count, counters["draws"].values())))
        return Manifest(arrays=arrays, **{name: value for name, value in body.items() if name != "arrays"})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise _damaged(path) from error


def _array_entry(entry: Mapping[str, Any]) -> ArrayEntry:
    shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
    _require(len(shape) <= MAX_AXES and all(map(_is_count, shape)))
    _require(str(dtype) == entry["dtype"] and not dtype.hasobject and dtype.names is None)
    _require(math.prod(size or 1 for size in shape) * dtype.itemsize < 1 << 60)  # numpy has no larger arrays, not even without elements
    return ArrayEntry(shape, str(dtype), str(entry["checksum"]), str(entry["name"]))


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 60


def _is_rules(value: object) -> bool:
    rules = cast("list[object]", value)
    return isinstance(value, list) and all(isinstance(rule, list) and all(isinstance(one, str) for one in _items(rule)) for rule in rules)


def _is_label(value: object) -> bool:
    return isinstance(value, list) and len(_items(value)) == LABEL_PARTS and all(isinstance(one, str) for one in _items(value))


def _items(of_list: object) -> list[object]:
    return cast("list[object]", of_list)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("a manifest of another form")


def _damaged(path: Path) -> DataLossError:
    return DataLossError(f"{str(path)!r} is damaged: it is not what was saved. Restore another checkpoint of this directory.")


def _of_body(body: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()
