"""TensorBoard's event files, written with the `tensorboard` package and without TensorFlow.

A file is a row of records, each one ``Event`` message: first the version of the format, then values. An export of a trace writes a whole
file at once (`write_event_file`); a training appends to one as it goes on (`EventFile`), and holds no open file between two calls, so that
a main that is killed leaves whole records and nothing else.

Rules: this file knows values and nothing of traces or models; it reads no clock, and equal values give equal bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.extras import needs
from simdist.trace.atomic_file import replacing, require_on_this_machine

__all__ = ["EventFile", "Histogram", "Scalar", "require_tensorboard", "write_event_file"]

VERSION = "brain.Event:2"
BUCKETS = 30


@dataclass(frozen=True)
class Scalar:
    """The value of a tag at a step; `wall_time_s` is what TensorBoard takes for the real time."""

    tag: str
    step: int
    wall_time_s: float
    value: float


@dataclass(frozen=True, eq=False)
class Histogram:
    """How the numbers of an array (any shape) are distributed at a step; those that are not finite are left out."""

    tag: str
    step: int
    wall_time_s: float
    values: np.ndarray


def require_tensorboard(part: str) -> None:
    """Load the package now, rather than when there is something to write.

    Args:
        part: what needs it, as the beginning of a sentence.

    Raises:
        ModuleNotFoundError: `tensorboard` is not installed.
    """
    with needs(part, "tensorboard"):
        importlib.import_module("tensorboard.summary.writer.record_writer")


def write_event_file(path: Path, scalars: Iterable[Scalar]) -> None:
    """Write scalars as a file that TensorBoard reads.

    Args:
        path: the file, which TensorBoard finds if its name contains "tfevents"; an old one is replaced.
        scalars: in the order in which they are to be written.

    Raises:
        ModuleNotFoundError: `tensorboard` is not installed.
        ResourceExhaustedError: the disk is full; an old file stays whole.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Path(directory, "events.out.tfevents.0.example")
        ...     write_event_file(path, [Scalar("queue", 1, 0.5, 3.0)])
        ...     b"brain.Event:2" in path.read_bytes()
        True
    """
    require_tensorboard("An event file for TensorBoard")
    with replacing(path) as file:
        write = _records(file)
        write(_header())
        for scalar in scalars:
            write(_event(scalar))


class EventFile:
    """A new event file in a directory, which grows.

    Args:
        directory: made when the first value is written, and so is the file: its number follows those of the files that are there, so that
            TensorBoard reads it after them.

    Raises:
        ModuleNotFoundError: `tensorboard` is not installed.
        InvalidArgumentError: the directory is an address as of a cloud.

    Example:
        >>> import tempfile
        >>> directory = Path(tempfile.mkdtemp())
        >>> EventFile(directory).append([Scalar("epoch_loss", 0, 0.5, 3.0)])
        >>> EventFile(directory).append([Scalar("epoch_loss", 1, 0.5, 2.0)])
        >>> sorted(path.name for path in directory.iterdir())
        ['events.out.tfevents.0000000000.simdist', 'events.out.tfevents.0000000001.simdist']
    """

    def __init__(self, directory: Path) -> None:
        require_tensorboard("An event file for TensorBoard")
        require_on_this_machine(directory)
        self.directory = directory
        self._path: Path | None = None

    def append(self, values: Iterable[Scalar | Histogram]) -> None:
        """Write values after those that are there; of none, nothing is written.

        Raises:
            InvalidArgumentError: the directory is, or lies below, a file.
        """
        events = [_event(value) for value in values]
        if not events:
            return
        if self._path is None:
            self._path, events = self._next(), [_header(), *events]
        with self._path.open("ab") as file:
            write = _records(file)
            for event in events:
                write(event)

    def _next(self) -> Path:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            given = str(self.directory)
            raise InvalidArgumentError(
                f"The directory of event files must not be or lie below a file; got {given!r}: give another."
            ) from error
        numbers = [path.name.split(".")[3] for path in self.directory.glob("events.out.tfevents.*.simdist")]
        number = 1 + max((int(number) for number in numbers if number.isdigit()), default=-1)
        return self.directory / f"events.out.tfevents.{number:010d}.simdist"


Message = Any  # of Protocol Buffers; tensorboard carries no types


def _records(file: BinaryIO) -> Callable[[Message], None]:
    from tensorboard.summary.writer.record_writer import RecordWriter

    writer = RecordWriter(file)
    return lambda message: writer.write(message.SerializeToString(deterministic=True))


def _header() -> Message:
    return _messages("event_pb2").Event(file_version=VERSION)


def _event(value: Scalar | Histogram) -> Message:
    summary = _messages("summary_pb2").Summary
    content = {"simple_value": value.value} if isinstance(value, Scalar) else {"histo": _buckets(value.values)}
    of_tag = summary(value=[summary.Value(tag=value.tag, **content)])
    return _messages("event_pb2").Event(wall_time=value.wall_time_s, step=value.step, summary=of_tag)


def _messages(module: str) -> Any:
    """A module of classes of messages, which it makes when it is loaded."""
    return importlib.import_module(f"tensorboard.compat.proto.{module}")


def _buckets(values: np.ndarray) -> Message:
    """Equal buckets between the least and the greatest number; one bucket where these are equal."""
    histogram = _messages("summary_pb2").HistogramProto
    numbers = np.asarray(values, np.float64).ravel()
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return histogram()
    least, greatest = float(numbers.min()), float(numbers.max())
    counts, edges = np.histogram(numbers, BUCKETS) if least < greatest else (np.array([numbers.size]), np.array([least, greatest]))
    sums = {"num": float(numbers.size), "sum": float(numbers.sum()), "sum_squares": float(np.square(numbers).sum())}
    return histogram(min=least, max=greatest, bucket_limit=edges[1:].tolist(), bucket=counts.astype(float).tolist(), **sums)
