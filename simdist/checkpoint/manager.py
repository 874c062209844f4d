"""`CheckpointManager`: numbered checkpoints in a directory, of which the newest stay.

Taught in lesson 09.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from simdist.arguments import flag, number, shown, whole_number
from simdist.checkpoint.checkpoint import Checkpoint, PathLike
from simdist.checkpoint.directory import found_in, newest_number
from simdist.checkpoint.files import remove
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.manager_index import recover, remove_index, write_index
from simdist.checkpoint.objects import Objects
from simdist.checkpoint.options import CheckpointOptions
from simdist.checkpoint.rotation import Entry, Rotation
from simdist.checkpoint.status import RestoreStatus
from simdist.checkpoint.writing import forget, under_way
from simdist.errors import DataLossError, FailedPreconditionError, InvalidArgumentError
from simdist.runtime.base import Engine
from simdist.trace.atomic_file import remove_leftovers, require_on_this_machine
from simdist.uncopied import Uncopied

__all__ = ["CheckpointManager"]

HOUR_S = 3600.0


class StepCounter(Protocol):
    """A variable that counts steps."""

    def numpy(self) -> Any: ...


class CheckpointManager(
    Uncopied, why="both would keep one list of files.", instead="Make another one of the same directory, which goes on where this one is."
):
    """Saves checkpoints ``directory/checkpoint_name-N``, and removes the oldest.

    A new manager of the same directory goes on where the last one was: with its numbers, and its list. Several at the same time each remove
    what they have saved themselves, or have found when they were made or have restored. In launched mains every main has a manager and
    calls its methods; the chief writes.

    Args:
        checkpoint: what is saved.
        directory: where; it is made if it is not there.
        max_to_keep: so many of the newest stay; None: all.
        keep_checkpoint_every_n_hours: of those that would be removed, one in so many virtual hours stays for ever, and leaves the list; the
            hours count from now, by the clock of the cluster that has the variables, or else by that which `sd.sleep` takes. None or 0:
            none stays.
        checkpoint_name: the beginning of the names; default "ckpt".
        step_counter: a variable that counts the steps; `checkpoint_interval` needs it, and it has no effect without one.
        checkpoint_interval: `save` does nothing until the counter is so many steps further; None: it saves whenever it is called.
        init_fn: called by `restore_or_initialize` where there is no checkpoint.
        last_checkpoint_step: the step of the last checkpoint, where there is one already; for `checkpoint_interval`.

    Attributes:
        status: of the last restore by `restore_or_initialize`.

    Raises:
        InvalidArgumentError: max_to_keep below 1, an interval without a counter, a last step without an interval, a directory that
            is a file or an address, or a name with a slash.
        FailedPreconditionError: hours, and no cluster whose time passes.
        TypeError: `checkpoint` is no `sd.Checkpoint`, `init_fn` no function, or `step_counter` no variable.

    Example:
        >>> import tempfile
        >>> import simdist as sd
        >>> manager = sd.CheckpointManager(sd.Checkpoint(v=sd.Variable(1.0)), tempfile.mkdtemp(), max_to_keep=2)
        >>> for _ in range(3):
        ...     path = manager.save()
        >>> [Path(path).name for path in manager.checkpoints], Path(manager.latest_checkpoint).name
        (['ckpt-2', 'ckpt-3'], 'ckpt-3')
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: PathLike,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: StepCounter | None = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], object] | None = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        if not isinstance(cast("object", checkpoint), Checkpoint):
            raise TypeError(f"CheckpointManager takes an sd.Checkpoint; got {type(checkpoint).__name__}.")
        if init_fn is not None and not callable(init_fn):
            raise TypeError(f"init_fn is {init_fn!r}; expected a function without arguments, or None")
        self.checkpoint = checkpoint
        self.step_counter = step_counter
        self.checkpoint_interval = _checked_interval(checkpoint_interval, step_counter)
        self.init_fn = init_fn
        self.status = RestoreStatus(None)
        self._prefix = _checked_name(checkpoint_name)
        self._directory = _checked_directory(directory)
        hours = keep_checkpoint_every_n_hours
        keep_every_s = None if hours is None else HOUR_S * number(hours, "keep_checkpoint_every_n_hours") or None
        mains = self._mains()
        if hours is not None and mains.clock is None:
            raise FailedPreconditionError(
                f"keep_checkpoint_every_n_hours={hours} counts virtual hours, and there is no cluster whose time passes. Make one before "
                "the manager, sd.Cluster({'worker': 1}), or leave the argument out."
            )
        keeps = None if max_to_keep is None else whole_number(max_to_keep, "max_to_keep", 1)
        self._rotation = Rotation(keeps, keep_every_s, last_kept_s=mains.now_s, begun_s=mains.now_s)
        self._written_step = _checked_step(last_checkpoint_step, step_counter, checkpoint_interval)
        self._begun: tuple[str | None, int | None] = None, None  # the last one, and its step: it may be under way, or have failed
        recover(self._directory, self._prefix, self._rotation)
        if mains.is_chief:
            remove_leftovers(self._directory, f"{self._prefix}-")

    @property
    def directory(self) -> str:
        """Where the checkpoints are."""
        return str(self._directory)

    @property
    def checkpoints(self) -> list[str]:
        """The paths of those that are managed, the oldest first."""
        return [str(self._directory / name) for name in self._rotation.names]

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the newest; None where there is none."""
        return self.checkpoints[-1] if self._rotation.entries else None

    def save(
        self,
        checkpoint_number: int | StepCounter | None = None,
        check_interval: bool = True,
        options: CheckpointOptions | None = None,
    ) -> str | None:
        """Save the next checkpoint, and remove those that are too many.

        Args:
            checkpoint_number: of its name; an integer, or a variable that has one now. Default: one more than the largest number of the
                directory under this name, also of one that is still being written, and than the saves that the checkpoint has counted, to
                whatever directory (its `save_counter`).
            check_interval: False saves also where `checkpoint_interval` has not passed, but no step twice.
            options: as for `Checkpoint.save`.

        Returns:
            Its path; None where it is not time yet.

        Raises:
            InvalidArgumentError, ResourceExhaustedError, UnavailableError: as `Checkpoint.save`; the checkpoints before stay.
        """
        step = None if self.checkpoint_interval is None else self._step()
        under_way = self.checkpoint.settle()  # one that has failed says so now
        if self._is_early(step, flag(check_interval, "check_interval"), under_way):
            return None
        path = self._save(checkpoint_number, options, step)
        self._begun = str(path), step
        return str(path)

    def _save(self, checkpoint_number: int | StepCounter | None, options: CheckpointOptions | None, step: int | None) -> Path:
        mains = self._mains()
        given = None if checkpoint_number is None else _checked_number(checkpoint_number)
        number = int(mains.of_chief(self._next_number(mains.engine) if given is None else given))
        path = self._directory / f"{self._prefix}-{number}"
        entry = Entry(path.name, mains.now_s)
        engine, is_chief = mains.engine, mains.is_chief
        before: list[tuple[Rotation, int | None]] = []  # from when this one counts: the last one may be on its way to the disk until then

        def saved() -> None:
            before.append((self._rotation.copy(), self._written_step))
            self._saved(entry, engine, is_chief, step)

        def failed() -> None:
            if before:
                self._rotation, self._written_step = before[-1]

        self.checkpoint.save_as(path, number, options, saved, failed)
        return path

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint; where there is none, call `init_fn`.

        One that is damaged is passed over with a warning, and the one before is restored.

        Returns:
            The path of what was restored, or None.

        Raises:
            DataLossError: all of them are damaged.
            InvalidArgumentError: as `Checkpoint.restore`.
        """
        self.checkpoint.settle(waits=True)
        recover(self._directory, self._prefix, self._rotation)  # another manager may have saved and removed since
        damaged: DataLossError | None = None
        for path in reversed(self._mains().of_chief(self.checkpoints)):
            try:
                self.status = self.checkpoint.restore(path).expect_partial()
            except DataLossError as error:
                damaged = damaged or error
                warnings.warn(f"{error} CheckpointManager goes on to the one before.", stacklevel=2)
                continue
            self._written_step = self._step()
            return str(path)
        if damaged is not None:
            raise damaged
        if self.init_fn is not None:
            self.init_fn()
        return None

    def sync(self) -> None:
        """Wait until what is being saved is written; see `Checkpoint.sync`."""
        self.checkpoint.sync()

    def remove_all(self) -> None:
        """Remove the checkpoints of the directory that have this manager's name, and its list; the directory stays."""
        self.checkpoint.settle(waits=True)
        mains = self._mains()
        self._rotation.entries.clear()
        if mains.is_chief:
            for found in found_in(self._directory, self._prefix):
                _remove(found.path, mains.engine)
            remove_index(self._directory, self._prefix)

    def _saved(self, entry: Entry, engine: Engine | None, is_chief: bool, step: int | None) -> None:
        """A checkpoint is there, whichever task's time it is: those that are too many go."""
        self._written_step = step
        before = self._rotation.names
        gone = self._rotation.saved(entry)
        if is_chief:
            write_index(self._directory, self._prefix, self._rotation, before)
            for name in gone:
                _remove(self._directory / name, engine)

    def _mains(self) -> Mains:
        return Mains(Objects.of(self.checkpoint.objects).strategies)

    def _next_number(self, engine: Engine | None) -> int:
        return 1 + max(newest_number(self._directory, self._prefix, under_way(engine)), self.checkpoint.save_counter)

    def _step(self) -> int | None:
        return None if self.step_counter is None else int(self.step_counter.numpy())

    def _is_early(self, step: int | None, check_interval: bool, under_way: str | None) -> bool:
        """Whether too few steps have passed since the last checkpoint that is there, or that is being written."""
        begun, begun_step = self._begun
        last = begun_step if under_way is not None and under_way == begun else self._written_step
        if step is None or last is None:
            return False
        if check_interval and self.checkpoint_interval is not None:
            return step - last < self.checkpoint_interval
        return step == last


def _remove(path: Path, engine: Engine | None) -> None:
    remove(path)
    forget(engine, path)


def _checked_number(number: int | StepCounter) -> int:
    return whole_number(number if isinstance(number, int) or not hasattr(number, "numpy") else number.numpy(), "checkpoint_number", 0)


def _checked_interval(interval: int | None, step_counter: StepCounter | None) -> int | None:
    if interval is None:
        return None
    if step_counter is None:
        raise InvalidArgumentError(f"checkpoint_interval={interval} needs a step_counter: the variable that counts the steps.")
    return whole_number(interval, "checkpoint_interval", 1)


def _checked_step(step: int | None, step_counter: StepCounter | None, interval: int | None) -> int | None:
    if step_counter is not None and not hasattr(step_counter, "numpy"):
        raise TypeError(f"step_counter is {step_counter!r}; expected the variable that counts the steps")
    if step is None:
        return None
    if step_counter is None:
        raise InvalidArgumentError(f"last_checkpoint_step={step} needs a step_counter: the variable that counts the steps.")
    if interval is None:
        raise InvalidArgumentError(
            f"last_checkpoint_step={step} needs a checkpoint_interval, which counts from it; without one every call of save() saves."
        )
    return whole_number(step, "last_checkpoint_step", 0)


def _checked_name(name: str) -> str:
    if not isinstance(cast("object", name), str):
        raise TypeError(f"checkpoint_name is {shown(name)}; expected text, such as 'ckpt'")
    if not name or "\0" in name or os.sep in name or "/" in name or name.startswith("."):
        raise InvalidArgumentError(f"checkpoint_name={name!r}; expected the beginning of a name of files, such as 'ckpt'.")
    return name


def _checked_directory(given: PathLike) -> Path:
    require_on_this_machine(given)
    directory = Path(given)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgumentError(f"{str(directory)!r} is a file, or lies below one; expected a directory for the checkpoints.") from error
    return directory
