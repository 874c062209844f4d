"""A file on its way from the disk to the tasks that hold its values: the disk reads, the network brings it, and all that takes its time.

A file that lies on the disk of another task is read there, and travels to the task of the program first.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simdist.checkpoint.disk_waits import wait_for_disk
from simdist.checkpoint.mains import Mains
from simdist.runtime.base import Engine
from simdist.variables.variable import Variable

__all__ = ["bring"]


def bring(mains: Mains, path: Path, size_bytes: int, variables: Sequence[Variable]) -> None:
    """Wait until a file was read and the tasks that hold some variables have their values; no time passes without a cluster.

    Args:
        mains: of the program that reads.
        path: of the file.
        size_bytes: of what is read.
        variables: that get values.

    Raises:
        UnavailableError: a task that takes part is down, has died meanwhile or cannot be reached.
    """
    engine, task = mains.engine, mains.task
    if engine is None:
        return
    keeper = engine.directories.task_of(path, task)
    wait_for_disk(engine, f"{path.name} to be read", lambda ended: engine.disk(keeper).read(str(path), size_bytes, ended))
    if keeper != task:
        _copy(engine, keeper, task, path, size_bytes)
    for holder, sent_bytes in mains.sent_to(variables).items():
        _copy(engine, task, holder, path, sent_bytes)


def _copy(engine: Engine, source: str, target: str, path: Path, size_bytes: int) -> None:
    began_s = engine.now
    engine.copy(source, target, size_bytes, f"values of {path.name}")
    engine.waited(target, "checkpoint", f"receive {path.name}", began_s, size_bytes)
