"""One checkpoint on its way to the disk: values are taken at once, and the files take their name when the disks of the tasks are done.

The values of other tasks travel to the task that writes, and the disk of that task takes its time; or each task writes its own values,
side by side. A task that dies meanwhile, or whose disk is full, ends the save with an error, and there is no checkpoint.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from simdist.checkpoint.files import Unfinished
from simdist.checkpoint.options import CheckpointOptions
from simdist.runtime.base import Engine, Promise

__all__ = ["Saved", "Writing", "forget", "part_of_owner", "under_way"]

Saved: TypeAlias = Callable[[], object]
"""Is called when a checkpoint is there; may not block."""


class Writing:
    """A checkpoint that is being written.

    Args:
        unfinished: its files.
        engine: whose disks take the time; None: none.
        task: whose program saves; its disk writes, or that on which the path lies, unless the owners do.
        parts: bytes of the values, by the task that holds them.
        options: who writes.
        saved: is called when there is a checkpoint.

    Attributes:
        error: why there is no checkpoint; None where there is one, or it is not over.
    """

    def __init__(
        self,
        unfinished: Unfinished,
        engine: Engine | None,
        task: str,
        parts: Mapping[str, int],
        options: CheckpointOptions,
        saved: Saved,
    ) -> None:
        self.unfinished = unfinished
        self.engine = engine
        self.saved = saved
        self.error: BaseException | None = None
        self._over: Promise | None = None
        if engine is None:
            unfinished.finish()
            saved()
            return
        self._over = engine.promise()
        self._process = engine.process(task)
        by_owner = options.writers == "owners"
        keeper = engine.directories.task_of(self.path, task)
        writers = {owner: {owner: size} for owner, size in parts.items()} if by_owner else {keeper: parts}
        disks = {writer: engine.disk(writer) for writer in writers}
        engine.unfinished.append(self)
        self._left = len(writers)
        for writer, held in writers.items():
            name = part_of_owner(self.path, writer) if by_owner else str(self.path)
            disks[writer].write(name, sum(held.values()), self._ended, held)

    @property
    def path(self) -> Path:
        """Of the checkpoint."""
        return self.unfinished.target

    @property
    def is_over(self) -> bool:
        """Whether it is written, or has failed."""
        return self._over is None or self._over.is_open

    def wait(self) -> None:
        """Wait until it is written.

        Raises:
            ResourceExhaustedError: a disk is full.
            UnavailableError: a task that takes part has died, or the disk is lost on which the checkpoint lies.
            AbortedError: the disk tears what it writes.
        """
        if self._over is not None:
            self._over.wait(f"the checkpoint {self.path.name} to be written")
            self._is_known()
        if self.error is not None:
            raise self.error

    def lost(self) -> str | None:
        """See `Unfinished`: what the program does not know if it ends now. One that has crashed has lost it by that."""
        if not self._process.alive:
            return None
        why = "the cluster is closed before that" if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return (
            f"The checkpoint {str(self.path)!r} was to be written beside the program, and is lost: {why}. Call sync() of its Checkpoint or "
            "CheckpointManager before the program ends, which waits and raises such an error."
        )

    def _is_known(self) -> None:
        """It is written, or a caller has waited for it and gets its error."""
        if self.engine is not None and self in self.engine.unfinished:
            self.engine.unfinished.remove(self)

    def _ended(self, error: BaseException | None) -> None:
        assert self._over is not None
        self._left -= 1
        if error is not None and self.error is None:
            self.error = error
            self.unfinished.drop()
        if self._left or self._over.is_open:
            return
        if self.error is None:
            try:
                self.unfinished.finish()
                self.saved()
                self._is_known()
            except Exception as failed:
                self.error = failed
        if self.error is not None and not self.path.exists():
            forget(self.engine, self.path)  # what some of the owners have written already
        self._over.open()


def forget(engine: Engine | None, path: Path) -> None:
    """Let the disks of all tasks have room for what a checkpoint took that is not there any more."""
    if engine is None:
        return
    for task in engine.task_names:
        disk = engine.disk(task)
        disk.delete(str(path))
        disk.delete(part_of_owner(path, task))


def under_way(engine: Engine | None) -> list[Path]:
    """The checkpoints that are being written now, by whichever program of a cluster."""
    works = [] if engine is None else engine.unfinished
    return [work.path for work in works if isinstance(work, Writing) and not work.is_over]


def part_of_owner(path: Path, owner: str) -> str:
    """The name of an owner's part on its disk."""
    return f"{path}.{owner}"
