"""A disk that takes no time, never is full, and of which nothing is ever lost."""

from __future__ import annotations

import math
from collections.abc import Mapping

from simdist.hardware import DiskModel
from simdist.runtime.storage import Ended, checked_file

__all__ = ["DiskHere"]

ENDLESS = DiskModel(name="endless", read_bandwidth=math.inf, write_bandwidth=math.inf, latency=0.0, fsync=0.0, capacity=math.inf)


class DiskHere:
    """As `TaskDisk`; whatever is asked for has been done when the call returns.

    Args:
        tasks: of the engine, by name.
    """

    model = ENDLESS

    def __init__(self, tasks: Mapping[str, object]) -> None:
        self._tasks = tasks
        self._sizes: dict[str, int] = {}

    @property
    def used_bytes(self) -> int:
        return sum(self._sizes.values())

    def write(self, path: str, size_bytes: int, ended: Ended, parts: Mapping[str, int] | None = None) -> None:
        checked_file(path, size_bytes, parts, self._tasks)
        self._sizes[path] = int(size_bytes)
        ended(None)

    def read(self, path: str, size_bytes: int, ended: Ended) -> None:
        checked_file(path, size_bytes, None, self._tasks)
        ended(None)

    def delete(self, path: str) -> None:
        self._sizes.pop(path, None)

    def exists(self, path: str) -> bool:
        return path in self._sizes

    def size_bytes(self, path: str) -> int:
        return self._sizes.get(path, 0)
