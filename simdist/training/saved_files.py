"""Files of models, as `model.save`, `save_weights` and `ModelCheckpoint` write them: whole or absent, and through the disk of the task.
`load_weights` reads them by the same way back.

The files are Keras' own, so plain Keras opens them without simdist. The values of other tasks travel to the task of the program, or to the
one on whose disk the path lies, and that disk takes its time, before the file gets its name.

Not in a file: the draws of random numbers. A model that is loaded draws other masks of dropout than the run that went on would have, as in
plain Keras; a checkpoint keeps the draws.

Taught in lesson 09.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import h5py
import keras

from simdist.checkpoint.disk_waits import wait_for_disk
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.reading import bring
from simdist.strategies.base import Strategy
from simdist.trace.atomic_file import replacing_path
from simdist.variables.handles import adopted
from simdist.variables.variable import Variable

__all__ = ["is_damaged", "load_file", "require_holders", "saved_file"]


@contextmanager
def saved_file(model: keras.Model, path: str | os.PathLike[str], strategy: Strategy | None) -> Iterator[Path]:
    """Where the file of a model is to be written, so that it appears whole when the block ends.

    Args:
        model: that is saved.
        path: of the file.
        strategy: whose tasks hold the model; None: no time passes.

    Raises:
        InvalidArgumentError: the path is a directory, or lies below a file.
        ResourceExhaustedError: the disk of the task, or of the machine, is full; a file that was there before stays as it was.
        UnavailableError: a task that takes part has died.
    """
    with replacing_path(path) as unfinished:
        with nullcontext() if strategy is None else strategy.between_updates():
            yield unfinished
        if strategy is not None:
            _write(model, strategy, os.fspath(path))


def load_file(model: keras.Model, path: str | os.PathLike[str], strategy: Strategy | None) -> None:
    """Let the file of weights come from the disk, and its values to the tasks that hold the model: as for a restore of a checkpoint.

    Args:
        model: that gets them.
        path: of the file; where there is none, nothing happens here, and Keras will say so.
        strategy: whose tasks hold the model; None: no time passes.

    Raises:
        UnavailableError: a task is down that holds a part of the model, or cannot be reached; nothing is changed.
    """
    require_holders(model, with_optimizer=True)
    if strategy is not None and Path(path).exists():
        _read(model, strategy, os.fspath(path))
        require_holders(model, with_optimizer=True)


def require_holders(model: keras.Model, with_optimizer: bool) -> None:
    """Refuse to load anything while a task is down that holds a part of the weights, as Keras would load the other parts.

    Args:
        model: that gets weights.
        with_optimizer: whether the optimizer gets its slots as well.

    Raises:
        UnavailableError: one is.
    """
    variables = _adopted([*model.weights, *(_of_optimizer(model) if with_optimizer else ())])
    for store in dict.fromkeys(variable.placement.store for variable in variables):
        store.require_present([variable for variable in variables if variable.placement.store is store])


def is_damaged(path: str | os.PathLike[str]) -> bool:
    """Whether a part of a file (.keras or .weights.h5) cannot be read. A .weights.h5 has no checksums: changed numbers are not noticed."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as parts:
                return parts.testzip() is not None
        with h5py.File(path) as file:
            file.visititems(_read_whole)
    except (OSError, RuntimeError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        return True
    return False


def _read_whole(_: str, part: h5py.Group | h5py.Dataset) -> None:
    if isinstance(part, h5py.Dataset):
        part[()]


def _write(model: keras.Model, strategy: Strategy, path: str) -> None:
    engine, parts = strategy.engine, Mains([strategy]).held_by(_saved(model))
    disk, size_bytes = engine.disk(engine.directories.task_of(path, strategy.program_task)), sum(parts.values())
    wait_for_disk(engine, f"{Path(path).name} to be written", lambda ended: disk.write(path, size_bytes, ended, parts))


def _read(model: keras.Model, strategy: Strategy, path: str) -> None:
    mains, variables = Mains([strategy]), _saved(model)
    bring(mains, Path(path), sum(mains.held_by(variables).values()), variables)


def _saved(model: keras.Model) -> list[Variable]:
    """The variables whose values a file of the model has."""
    return _adopted([*model.variables, *_of_optimizer(model)])


def _of_optimizer(model: keras.Model) -> Iterable[keras.Variable]:
    return () if not model.compiled or model.optimizer is None else model.optimizer.variables


def _adopted(variables: Iterable[keras.Variable]) -> list[Variable]:
    """The variables of strategies that have the values of these."""
    return [own for variable in variables if (own := adopted(variable)) is not None]
