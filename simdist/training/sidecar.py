"""Evaluation beside the training: a task of its own evaluates the weights that the chief saves.

The two share a directory, and nothing else: no step of the training waits, and the evaluator may skip files where the training is faster.
It looks for new ones from time to time, in virtual seconds. One that has crashed goes on with the newest when it is started again.

Reading a file or a checkpoint takes the time of the evaluator's disk, where the model was made in the scope of a strategy.

Source: the side-car evaluation of TensorFlow's guide to parameter servers; its `SidecarEvaluator`.

Taught in lesson 10.
"""

from __future__ import annotations

import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from simdist.arguments import number, whole_number
from simdist.checkpoint import Checkpoint
from simdist.checkpoint.directory import found_in
from simdist.checkpoint.manifest import MANIFEST
from simdist.errors import DataLossError, DeadlineExceededError, InvalidArgumentError, NotFoundError, SimdistError
from simdist.runtime.sleep import sleep

__all__ = ["Evaluation", "SidecarEvaluator"]

SUFFIXES = (".weights.h5", ".keras")
NOT_LOADED = ("metadata.json", "config.json")
"""Parts of a file of Keras that are no weights: it writes the date into one, and numbers that are addresses of objects into the other."""

UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, KeyError)
"""What zip archives and HDF5 files raise that are not whole. Keras says ValueError of another model's weights, and of some damage."""


class Evaluated(Protocol):
    """A compiled Keras model."""

    built: bool

    def evaluate(self, x: Any, *, steps: int | None, verbose: int, callbacks: Any, return_dict: bool) -> Any: ...
    def load_weights(self, filepath: Any, /) -> object: ...


@dataclass(frozen=True)
class Evaluation:
    """What came of one file.

    Attributes:
        path: of the weights.
        logs: loss and metrics by name.
    """

    path: Path
    logs: dict[str, Any]


@dataclass
class SidecarEvaluator:
    """Evaluates each new file of weights in a directory; for the main of an ``evaluator`` task.

    Args:
        model: compiled; a Keras model like the one that is trained. In the scope of ``sd.OneDeviceStrategy()`` its evaluation takes the
            virtual time of this task's device.
        data: as for its ``evaluate``; with an end, or with `steps`.
        checkpoint_dir: where `sd.Checkpoint` saves a ``model=``, or `keras.callbacks.ModelCheckpoint` writes files that end in .weights.h5
            or .keras. The newest checkpoint is the one that was saved last, the newest file the one with the largest numbers in its name.
            One that is replaced by another of its name is new where its content is. Where the newest is damaged, the one before it is
            evaluated, unless it was. The directory may not exist yet.
        steps: batches of an evaluation, 1 or more; default None: all.
        max_evaluations: after so many it ends, 1 or more; and after that of the checkpoint of this number, or of a later one, as an
            evaluator that is slow or was started again has not seen all of them. For that, name them by their numbers from 1 on
            ("ckpt-5", "5.weights.h5"). Default None: as many as there are, until no new file comes for `timeout_s`.
        callbacks: for ``evaluate``.
        poll_s: virtual seconds between two looks at the directory; default 1.
        timeout_s: virtual seconds without a new file, after which `start` ends, or raises if `max_evaluations` were not reached or there
            was no file at all; default 3,600. None: it waits for ever, as fits one of several launched mains, whose run ends without it.

    Attributes:
        evaluations: what came of the files, in order.

    Raises:
        InvalidArgumentError: steps or max_evaluations below 1, poll_s no positive number, timeout_s negative or infinite; the directory is
            a file.
        TypeError: steps or max_evaluations is no whole number, or one of the seconds is none.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import simdist as sd
        >>> from simdist import keras
        >>> cluster, directory = sd.Cluster({"worker": 2, "ps": 1, "evaluator": 1}), tempfile.mkdtemp()
        >>> x = np.linspace(0, 1, 32, dtype="float32")[:, None]
        >>> def build():
        ...     model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        ...     model.compile(keras.optimizers.SGD(0.1), "mse")
        ...     return model
        >>> def evaluate():
        ...     with sd.OneDeviceStrategy().scope():
        ...         model = build()
        ...     evaluator = sd.SidecarEvaluator(model, sd.Dataset.from_tensor_slices((x, x)).batch(8), directory, max_evaluations=1)
        ...     return evaluator.start()[0].logs["loss"]
        >>> beside = cluster.launch(evaluate, job="evaluator")
        >>> with sd.ParameterServerStrategy(cluster).scope():
        ...     model = build()
        >>> kept = keras.callbacks.ModelCheckpoint(directory + "/{epoch}.weights.h5", save_weights_only=True)
        >>> history = model.fit(x, x, batch_size=8, epochs=2, verbose=0, callbacks=[kept])
        >>> beside.join()
        >>> beside.results["evaluator:0"] == model.evaluate(x, x, batch_size=8, verbose=0)
        True
    """

    model: Evaluated
    data: Any
    checkpoint_dir: str | os.PathLike[str]
    steps: int | None = None
    max_evaluations: int | None = None
    callbacks: Sequence[Any] | None = None
    poll_s: float = 1.0
    timeout_s: float | None = 3600.0
    evaluations: list[Evaluation] = field(default_factory=list[Evaluation], init=False)

    def __post_init__(self) -> None:
        self._directory = Path(self.checkpoint_dir)
        self._seen: dict[Path, Hashable] = {}  # with their contents
        self._damaged: set[Path] = set()  # of those that were seen
        if self._directory.is_file():
            raise InvalidArgumentError(f"checkpoint_dir={str(self._directory)!r} is a file; expected the directory of the checkpoints.")
        for name in ("steps", "max_evaluations"):
            given = getattr(self, name)
            setattr(self, name, None if given is None else whole_number(given, name, 1))
        if number(self.poll_s, "poll_s") <= 0:
            raise InvalidArgumentError(f"poll_s={self.poll_s}; expected virtual seconds above 0.")
        if self.timeout_s is not None:
            number(self.timeout_s, "timeout_s")

    def start(self) -> list[Evaluation]:
        """Evaluate new files until there were `max_evaluations`, or the last one that is due, or no more come; returns what came of them.

        A file that vanishes, or cannot be read, is passed over with a warning. Files that end in .weights.h5 have no checksums: a number
        that has changed in one is not noticed. A warning also says where a number above `max_evaluations` ends it before so many
        evaluations: that may be a number of steps.

        Raises:
            InvalidArgumentError: a checkpoint lacks weights of the model, or a file has others.
            DeadlineExceededError: there was no new file for `timeout_s`.
        """
        waited_s = 0.0
        while not self._is_over():
            path = self._newest()
            if path is not None:
                waited_s = 0.0
                self._evaluate(path)
                continue
            if self.timeout_s is not None and waited_s >= self.timeout_s:
                if self.max_evaluations is None and self.evaluations:
                    break
                raise DeadlineExceededError(
                    f"SidecarEvaluator: no new file in {str(self._directory)!r} for {waited_s:g} s, after {len(self.evaluations)} "
                    "evaluations. Does the training save a Checkpoint(model=...), or with ModelCheckpoint, to this directory? Raise "
                    "timeout_s, or leave it out."
                )
            sleep(self.poll_s)
            waited_s += self.poll_s
        self._warn_of_early_end()
        return self.evaluations

    def _is_over(self) -> bool:
        """Whether the last one was evaluated, by their count or by its number: no crash and no pause changes the number."""
        most = self.max_evaluations
        if most is None or not self.evaluations:
            return False
        return len(self.evaluations) >= most or _number_of(self.evaluations[-1].path) >= most

    def _warn_of_early_end(self) -> None:
        """Warn where a number has ended it that no checkpoint has if they count from 1 and the training saves so many."""
        most, count = self.max_evaluations, len(self.evaluations)
        if most is not None and count < most < _number_of(self.evaluations[-1].path):
            warnings.warn(
                f"SidecarEvaluator ends after {count} of max_evaluations={most}: {self.evaluations[-1].path.name!r} has a larger number, "
                "so it counts as the last one, as in TensorFlow. If that is a number of steps, leave max_evaluations out (then it "
                "ends timeout_s after the last file), or name files by 1, 2, 3 and so on, as CheckpointManager does by itself.",
                stacklevel=3,
            )

    def _newest(self) -> Path | None:
        """The newest file that is not known to be damaged, unless it was seen as it is."""
        for path in self._newest_first():
            if path not in self._seen or self._seen[path] != _content_of(path):
                return path
            if path not in self._damaged:
                return None
        return None

    def _newest_first(self) -> Iterator[Path]:
        """All files and checkpoints: each kind in its order, and of two kinds the larger number first."""
        found = self._directory.glob("*") if self._directory.is_dir() else ()
        checkpoints = [one.path for one in found_in(self._directory)]
        files = sorted([path for path in found if path.name.endswith(SUFFIXES) and path.is_file()], key=_numbers)
        while checkpoints or files:
            yield max((kind for kind in (checkpoints, files) if kind), key=lambda kind: _numbers(kind[-1])).pop()

    def _evaluate(self, path: Path) -> None:
        if not self.model.built:
            # Weights need variables, which are made for the shape of a batch; of no evaluation, so no callback hears of it.
            self.model.evaluate(self.data, steps=1, verbose=0, callbacks=None, return_dict=True)
        self._seen[path] = _content_of(path)  # as it is loaded: time has passed since it was found
        self._damaged.discard(path)
        try:
            self._load(path)
        except Exception as error:
            if not _is_of_the_file(error):
                raise
            self._damaged.add(path)
            warnings.warn(f"SidecarEvaluator passes over {str(path)!r}: {type(error).__name__}: {error}", stacklevel=4)
            return
        logs = self.model.evaluate(self.data, steps=self.steps, verbose=0, callbacks=self.callbacks, return_dict=True)
        self.evaluations.append(Evaluation(path, logs))

    def _load(self, path: Path) -> None:
        if not path.exists():
            raise FileNotFoundError("it has vanished")
        if path.is_dir():
            status = Checkpoint(model=self.model).restore(path).expect_partial().assert_nontrivial_match()
            _require_weights(path, status.missing, status.waiting)
        else:
            _load_file(self.model, path)


def _load_file(model: Evaluated, path: Path) -> None:
    """Load a file of Keras, which says ValueError both of another model's weights and of some damage.

    Raises:
        DataLossError: it is damaged.
        InvalidArgumentError: it is of another model.
    """
    from simdist.training.saved_files import is_damaged  # it loads Keras

    try:
        model.load_weights(path)
    except ValueError as error:
        if isinstance(error, SimdistError):
            raise
        if is_damaged(path):
            raise DataLossError(f"The file is damaged. Keras says: {error}") from error
        raise InvalidArgumentError(
            f"The file {str(path)!r} has other weights than the model that SidecarEvaluator evaluates. Make the model as the training "
            f"makes it, or give each training a directory of its own. Keras says: {error}"
        ) from error


def _require_weights(path: Path, *paths: Sequence[str]) -> None:
    """Refuse a checkpoint without all weights of the model; its metrics and its optimizer count for nothing here.

    Raises:
        InvalidArgumentError: it is of another model.
    """
    missing = [name for names in paths for name in names if name.startswith("model/layers")]
    if missing:
        raise InvalidArgumentError(
            f"The checkpoint {str(path)!r} is of another model than the one that SidecarEvaluator evaluates: it has nothing for "
            f"{', '.join(missing[:8])}. Make the model as the training makes it, or give each training a directory of its own."
        )


def _is_of_the_file(error: Exception) -> bool:
    """Whether an error says that a file is not whole, or not there any more, and nothing about tasks."""
    return isinstance(error, (DataLossError, NotFoundError) if isinstance(error, SimdistError) else UNREADABLE)


def _content_of(path: Path) -> Hashable:
    """What tells a file from another one of its name: no time of the machine, on which nothing may depend; None where it has vanished."""
    try:
        if path.is_dir():
            return (path / MANIFEST).read_bytes()  # which counts the checkpoints of its directory
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as parts:
                return tuple((part.filename, part.CRC) for part in parts.infolist() if part.filename not in NOT_LOADED)
        return sha256(path.read_bytes()).digest()
    except (OSError, zipfile.BadZipFile):
        return None


def _number_of(path: Path) -> int:
    """The number with which a name ends, or which it is, suffixes aside: 5 of "ckpt-5" and "5.weights.h5"; 0 where there is none."""
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), "")
    last = path.name.removesuffix(suffix).rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def _numbers(path: Path) -> tuple[list[int], str]:
    """The numbers in a name, by which files are ordered: 10 comes after 9."""
    return [int(digits) for digits in re.findall(r"\d+", path.name)], path.name
