"""`Checkpoint`: the state of a training, saved and restored by its objects.

Taught in lesson 09.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

from simdist.checkpoint.collecting import Saved, collected
from simdist.checkpoint.contents import REPLICA_VALUES
from simdist.checkpoint.directory import found_in
from simdist.checkpoint.files import Unfinished
from simdist.checkpoint.last_save import LastSave
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.manifest import COUNTERS
from simdist.checkpoint.objects import Nest, Objects, Trackable
from simdist.checkpoint.options import CheckpointOptions
from simdist.checkpoint.restoring import Restoring
from simdist.checkpoint.status import RestoreStatus
from simdist.checkpoint.writing import Writing
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.tracing import active_tracer
from simdist.runtime.launched_main import LaunchedMain, launched_main
from simdist.trace.atomic_file import require_on_this_machine

__all__ = ["Checkpoint", "PathLike"]

RESERVED = (COUNTERS.partition("/")[0], REPLICA_VALUES)
ATTRIBUTES = ("objects", "save_counter")
_NOTHING = object()
PathLike: TypeAlias = str | os.PathLike[str]
"""The path of a file or a directory."""


class Checkpoint(Nest):
    """Objects by name, whose state is saved to files and restored from them.

    A checkpoint is a directory, whole or absent, that Orbax reads without simdist. It holds whole values: they are restored into any
    number of shards, servers, workers or replicas. Random streams of steps are part of it. In launched mains every main calls `save`
    and `restore`, and the chief writes. Of a main that names another directory nothing is in it: it may be removed, as in TensorFlow.
    Of parameter servers that apply rounds (mode="sync" or "bounded") it has each round whole: `save` and `restore` wait for one under way.

    Each object is an attribute, too. An attribute that is set later is saved as well, and gets what the last restore has for it.

    Args:
        root: one object more, saved under the name "root".
        objects: variables, `sd.Optimizer` and optimizers of Keras, models, layers, metrics, iterators of datasets, other checkpoints, what
            has ``state_dict()`` and ``load_state_dict(state)``; dicts and lists of these.

    Attributes:
        save_counter: how many checkpoints `save` has written.

    Raises:
        InvalidArgumentError: an object that cannot be saved, or the name of a method.

    Example:
        >>> import tempfile
        >>> import simdist as sd
        >>> directory = tempfile.mkdtemp()
        >>> v = sd.Variable([1.0, 2.0])
        >>> path = sd.Checkpoint(v=v).save(directory + "/ckpt")
        >>> v.assign([0.0, 0.0])
        >>> sd.Checkpoint(v=v).restore(path).assert_consumed().restored
        ['v']
        >>> v.numpy().tolist()
        [1.0, 2.0]
    """

    def __init__(self, root: Trackable = None, **objects: Trackable) -> None:
        super().__init__({**({} if root is None else {"root": root}), **objects})
        for name in self.objects:
            _require_free(name, type(self))
        Objects.of(self.objects)
        self.save_counter = 0
        self._writing: Writing | None = None
        self._last: LastSave | None = None  # of which not all mains know whether it is there
        self._main: LaunchedMain | None = None  # the one whose end waits for what is being written
        self._restores: list[Restoring] = []  # whose values wait for variables or objects, the latest first

    def __getattr__(self, name: str) -> Any:
        """An object by its name."""
        objects: dict[str, Trackable] = self.__dict__.get("objects", {})
        if name not in objects:
            raise AttributeError(f"This checkpoint has no object {name!r}; it has {', '.join(objects) or 'none'}.")
        return objects[name]

    def __setattr__(self, name: str, value: Trackable) -> None:
        if name.startswith("_") or name in ATTRIBUTES:
            super().__setattr__(name, value)
            return
        _require_free(name, type(self))
        before = self.objects.get(name, _NOTHING)
        Objects.of({**self.objects, name: value})
        self.objects[name] = value
        try:
            any(restoring.take(name) for restoring in self._restores)  # the latest that has something for it
        except BaseException:
            self.objects[name] = before
            if before is _NOTHING:
                del self.objects[name]
            raise

    def __copy__(self) -> Checkpoint:
        """Another checkpoint of the same objects, to which others can be added, with a counter that goes on from here."""
        other = type(self)(**self.objects)
        other.save_counter = self.save_counter
        return other

    def __delattr__(self, name: str) -> None:
        if name not in self.objects:
            raise AttributeError(f"This checkpoint has no object {name!r} that could be deleted.")
        del self.objects[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.objects]

    def save(self, file_prefix: PathLike, options: CheckpointOptions | None = None) -> str:
        """Save to ``file_prefix-N``, where N counts the saves.

        Args:
            file_prefix: directory and beginning of the name, such as "backup/ckpt".
            options: who writes, and whether to wait; default: the chief, and yes.

        Returns:
            The path of the checkpoint.

        Raises:
            InvalidArgumentError: the path is a file, or lies below one.
            ResourceExhaustedError: the disk of a task, or of the machine, is full.
            UnavailableError: a task that takes part has died.
            FailedPreconditionError: inside of a step, or numerics="off", where there are no values.
            TypeError: a path that is no text.
        """
        self.settle(waits=True)
        number = self.save_counter + 1
        return self.save_as(Path(f"{_text_of(file_prefix)}-{number}"), number, options)

    def write(self, file_prefix: PathLike, options: CheckpointOptions | None = None) -> str:
        """Save to this very path, without counting.

        Args:
            file_prefix: the path.
            options: as of `save`.

        Returns:
            The path.

        Raises:
            as `save`.
        """
        self.settle(waits=True)
        return self._write(Path(_text_of(file_prefix)), 0, options, lambda: None, lambda: None)

    def save_as(
        self,
        path: Path,
        number: int,
        options: CheckpointOptions | None = None,
        saved: Callable[[], object] = lambda: None,
        failed: Callable[[], object] = lambda: None,
    ) -> str:
        """Save to a path, as checkpoint of this number; it counts as one save.

        `saved` is called when it is there, `failed` when this main knows that it will not be: mains that do not write call both.
        """
        self.settle(waits=True)
        before = self.save_counter

        def take_back() -> None:
            self.save_counter = before
            failed()

        self.save_counter += 1
        try:
            return self._write(path, number, options, saved, take_back)
        except BaseException:
            self.save_counter = before
            raise

    def restore(self, save_path: PathLike | None) -> RestoreStatus:
        """Give the objects the state that was saved; what does not fit changes nothing.

        Args:
            save_path: what `save` returned, or None: restores nothing.

        Returns:
            What was found, and what was not. Variables that do not exist yet get their values when they are made.

        Raises:
            NotFoundError: there is no such checkpoint.
            InvalidArgumentError: a variable has another shape or dtype, or it is no checkpoint, or one of a later version.
            DataLossError: it is damaged.
            FailedPreconditionError: inside of a step.
        """
        _require_outside("restored")
        self.settle(waits=True)
        mains = Mains(Objects.of(self.objects).strategies)
        path = mains.of_chief(None if save_path is None else _text_of(save_path))
        if path is None:
            return RestoreStatus(None)
        restoring = Restoring(self.objects, Path(path), mains)
        self.save_counter = restoring.counter
        if restoring.has_more:
            # the status warns when nobody has it any more: not before variables are made, but whether or not objects come later
            self._restores.insert(0, restoring if restoring.status.waiting else restoring.quiet())
        return restoring.status

    read = restore

    def sync(self) -> None:
        """Wait until what is being saved is written.

        Raises:
            as `save`: what an asynchronous save ran into.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            self._wait(writing)

    def settle(self, waits: bool = False) -> str | None:
        """Raise what the last save ran into, in all mains that save together; each of them has to call it.

        Args:
            waits: until it is written. Otherwise one that is being written goes on, and its path is returned.

        Raises:
            as `sync`.
        """
        last = self._last
        if last is None:
            return None
        error: Exception | None = None
        is_over = waits or self._writing is None or self._writing.is_over
        if is_over:
            try:
                self.sync()
            except Exception as found:
                error = found
            self._last = None
        self._last = None if last.is_over(is_over, error) else last
        if error is not None:
            raise error
        return None if self._last is None else last.path

    def _wait(self, writing: Writing) -> None:
        try:
            writing.wait()
        except Exception:
            if self._last is not None:
                self._last.fail()
            raise

    def _write(
        self,
        path: Path,
        number: int,
        options: CheckpointOptions | None,
        saved: Callable[[], object],
        take_back: Callable[[], object],
    ) -> str:
        _require_outside("saved")
        options = CheckpointOptions() if options is None else options
        if not isinstance(cast("object", options), CheckpointOptions):
            raise TypeError(f"options is a {type(options).__name__}; expected an sd.CheckpointOptions, or None")
        objects = Objects.of(self.objects)
        mains = Mains(objects.strategies)
        self._restores = [restoring for restoring in self._restores if restoring.has_more]
        waiting = [restoring.waiting() for restoring in self._restores]
        with mains.between_updates():
            found = collected(objects, mains, {"save_counter": self.save_counter}, waiting)
        self._last = LastSave(mains, str(path), take_back)
        if not mains.is_chief:
            _make_directory(path.parent)
            saved()
            return str(path)
        try:
            writing = self._begin(found, path, number, mains, options, saved)
        except Exception:
            self._last.fail()
            raise
        if options.enable_async:
            self._writing = writing
            self._wait_at_the_end()
        else:
            self._wait(writing)
        return str(path)

    def _wait_at_the_end(self) -> None:
        """Let a launched main end with what it is writing; at the end of other programs their cluster warns."""
        main = launched_main.get()
        if main is not None and main is not self._main:
            self._main = main
            main.last_calls.append(self.sync)

    def _begin(
        self, found: Saved, path: Path, number: int, mains: Mains, options: CheckpointOptions, saved: Callable[[], object]
    ) -> Writing:
        known = found_in(path.parent) if path.parent.is_dir() else []
        sequence = 1 + max((one.sequence for one in known), default=0)
        unfinished = Unfinished(path, found.contents.arrays, found.manifest(number, sequence, mains.now_s))
        try:
            return Writing(unfinished, mains.engine, mains.task, Counter(found.held_by), options, saved)
        except BaseException:
            unfinished.drop()
            raise


def _require_free(name: str, kind: type[Checkpoint]) -> None:
    """Refuse what cannot be the name of an object.

    Raises:
        InvalidArgumentError: it is no name of Python, or a checkpoint uses it.
    """
    if not name.isidentifier():
        raise InvalidArgumentError(f"{name!r} is no name for an object of a checkpoint; use one as of a variable in Python.")
    if name in RESERVED or name in ATTRIBUTES or hasattr(kind, name):
        raise InvalidArgumentError(f"{name!r} is what a checkpoint calls something of its own; give the object another name.")


def _text_of(path: PathLike) -> str:
    """A path as text.

    Raises:
        InvalidArgumentError: an empty one, or an address.
        TypeError: it is no text.
    """
    text = cast("object", os.fspath(path))
    if not isinstance(text, str):
        raise TypeError(f"The path of a checkpoint is {path!r}; expected text.")
    if not text:
        raise InvalidArgumentError("The path of a checkpoint is empty. Give a directory and a beginning of names, such as 'backup/ckpt'.")
    require_on_this_machine(text)
    return text


def _make_directory(directory: Path) -> None:
    """The directory that a main names which writes nothing: programs for TensorFlow, where all mains write, remove it after the save."""
    with suppress(OSError):  # nothing is lost with it
        directory.mkdir(parents=True, exist_ok=True)


def _require_outside(what: str) -> None:
    if active_tracer() is not None:
        raise FailedPreconditionError(
            f"A checkpoint was to be {what} inside of a step, which is traced once, and repeated without its Python. Do it between steps."
        )
