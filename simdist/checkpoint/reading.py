"""A file on its way from the disk to the tasks that hold its values: the disk reads, the network brings it, and all that takes its time.

A file that lies on the disk of another task is read there, and travels to the task of the program first. Of a checkpoint that its owners
have written each reads its part, side by side; nothing travels where each gets the values that it has.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from simdist.checkpoint.disk_waits import wait_for_disks
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.writing import part_of_owner
from simdist.runtime.base import Engine
from simdist.runtime.delivery import Delivery
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
    sent, kept = mains.sent_to(variables), _kept_by_owners(engine, path)
    left_bytes = max(0, size_bytes - sum(kept.values()))
    keeper = engine.directories.task_of(path, task)
    reads = {owner: (part_of_owner(path, owner), part_bytes) for owner, part_bytes in kept.items()}
    if left_bytes or not kept:
        reads[keeper] = str(path), left_bytes + kept.get(keeper, 0)
    wait_for_disks(
        engine,
        f"{path.name} to be read",
        [partial(engine.disk(reader).read, name, read_bytes) for reader, (name, read_bytes) in reads.items()],
    )
    # Which values a part has is not written down: where it has room for all that its owner gets, these are taken to be there.
    has_own_values = bool(kept) and all(sent_bytes <= kept.get(holder, 0) for holder, sent_bytes in sent.items())
    what, name = f"values of {path.name}", f"receive {path.name}"
    coming = {reader: read_bytes for reader, (_, read_bytes) in reads.items() if reader != task and not (has_own_values and reader in kept)}
    engine.deliver([Delivery(reader, task, read_bytes, name) for reader, read_bytes in coming.items()], what, "checkpoint")
    going = {} if has_own_values else sent
    engine.deliver([Delivery(task, holder, sent_bytes, name) for holder, sent_bytes in going.items()], what, "checkpoint")


def _kept_by_owners(engine: Engine, path: Path) -> dict[str, int]:
    """The bytes of the parts that tasks have on their own disks, by task."""
    names = {task: part_of_owner(path, task) for task in engine.task_names}
    return {task: engine.disk(task).size_bytes(name) for task, name in names.items() if engine.disk(task).exists(name)}
