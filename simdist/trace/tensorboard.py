"""A trace as scalars for TensorBoard: how a run went on, in bins of virtual time.

The run is cut into bins of equal length. The step that TensorBoard shows is the number of the bin, from 1, and its wall
time is the end of the bin in virtual seconds, counted from 0. The tags:

- ``queue/LANE``: the mean length of a queue over the bin (the counter ``queue``; 0 before its first sample);
- ``steps_per_s/TASK``: steps that ended in the bin, by virtual second. In a log without ends of steps each step has one
  update, or else one computation: ``update`` spans of a task's lane, or ``compute`` spans of a task that has none;
- ``bytes_per_s/LANE``: the fact ``bytes`` of spans that ended in the bin;
- ``staleness/SERVER``: the mean staleness of the updates of the bin, where there were any;
- ``bytes_sent/TASK`` and ``link_bytes/LINK``: totals, once, at the last bin.

Invariant: the same trace gives the same bytes. The package `tensorboard` is needed to write the file, and TensorFlow is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.trace.atomic_file import require_on_this_machine
from simdist.trace.event_file import Scalar, write_event_file
from simdist.trace.event_log import EventLog
from simdist.trace.records import task_of
from simdist.trace.staleness import stale_updates

__all__ = ["FILE_NAME", "scalars", "to_tensorboard"]

FILE_NAME = "events.out.tfevents.0000000000.simdist"  # the number is where others put the real time
STEPS = ("update", "compute")


def to_tensorboard(trace: EventLog, directory: str | os.PathLike[str], bins: int = 200) -> Path:
    """Write a trace as an event file; ``tensorboard --logdir DIRECTORY`` shows it.

    Args:
        trace: the log of a run.
        directory: where the file is put; made if it is missing. A file that an earlier call put there is replaced.
        bins: into how many parts of virtual time the run is cut (default 200).

    Returns:
        The path of the file.

    Raises:
        ModuleNotFoundError: `tensorboard` is not installed.
        InvalidArgumentError: `bins` is less than 1, or `directory` is an address, or is or lies below a file.
        ResourceExhaustedError: the disk is full; an old file stays whole.

    Example:
        >>> import tempfile
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     to_tensorboard(trace, directory).name
        'events.out.tfevents.0000000000.simdist'
    """
    require_on_this_machine(directory)
    target = Path(directory)
    found = list(scalars(trace, bins))
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidArgumentError(f"directory must not be or lie below a file; got {str(target)!r}: give another path.") from error
    write_event_file(target / FILE_NAME, found)
    return target / FILE_NAME


def scalars(trace: EventLog, bins: int = 200) -> Iterator[Scalar]:
    """The scalars of a trace, in the order of time and then of tags.

    Args:
        trace: the log of a run.
        bins: into how many parts of virtual time the run is cut (default 200).

    Yields:
        Scalars; none for a log without duration.

    Raises:
        InvalidArgumentError: `bins` is less than 1.
        TypeError: it is no whole number.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> [(scalar.tag, scalar.step, scalar.wall_time_s, scalar.value) for scalar in scalars(trace, bins=1)]
        [('steps_per_s/worker:0', 1, 0.5, 2.0)]
    """
    bins = whole_number(bins, "bins", 1)
    if trace.end_s() <= 0:
        return
    edges_s = np.linspace(0.0, trace.end_s(), bins + 1)
    series = sorted([*_queues(trace, edges_s), *_steps(trace, edges_s), *_bytes(trace, edges_s), *_staleness(trace, edges_s)])
    for index, end_s in enumerate(edges_s[1:].tolist()):
        for tag, values in series:
            if not np.isnan(values[index]):
                yield Scalar(tag, index + 1, end_s, float(values[index]))
    for (lane, name), amount in sorted(trace.sums().items()):
        if name == "bytes_sent" or (name == "link_bytes" and amount):
            yield Scalar(f"{name}/{lane}", bins, trace.end_s(), float(amount))


Series = tuple[str, list[float]]  # a tag, and a value for each bin: NaN where there is none


def _queues(trace: EventLog, edges_s: np.ndarray) -> Iterator[Series]:
    for lane in trace.counters.lanes_of("queue"):
        time_s, length = trace.counters.series(lane, "queue")
        # The integral of a step function is a chain of lines; its differences at the edges are what the bins hold.
        times_s = np.concatenate([[min(0.0, float(time_s[0]))], time_s, [max(float(edges_s[-1]), float(time_s[-1]))]])
        lengths = np.concatenate([[0.0], length])
        integral = np.concatenate([[0.0], np.cumsum(lengths * np.diff(times_s))])
        yield f"queue/{lane}", (np.diff(np.interp(edges_s, times_s, integral)) / np.diff(edges_s)).tolist()


def _steps(trace: EventLog, edges_s: np.ndarray) -> Iterator[Series]:
    if not trace.steps:
        yield from _steps_of_spans(trace, edges_s)
    for task, ends_s in trace.steps.items():
        yield f"steps_per_s/{task}", _rates(np.array(ends_s), None, edges_s)


def _steps_of_spans(trace: EventLog, edges_s: np.ndarray) -> Iterator[Series]:
    columns = trace.spans.columns()
    rows_of = {category: _rows_by_lane(columns["lane"], trace.spans.rows_where(category=category)) for category in STEPS}
    lanes: dict[str, list[int]] = {}
    for lane in trace.spans.lanes():
        lanes.setdefault(task_of(lane), []).append(trace.names.codes[lane])
    for task, own in lanes.items():
        # The devices of a task step together: its first lane with steps is enough.
        found = (rows_of[category][lane] for category in STEPS for lane in own if lane in rows_of[category])
        if (first := next(found, None)) is not None:
            yield f"steps_per_s/{task}", _rates(columns["end_s"][first], None, edges_s)


def _bytes(trace: EventLog, edges_s: np.ndarray) -> Iterator[Series]:
    columns, texts = trace.spans.columns(), trace.names.texts
    rows, values = trace.spans.values_of("bytes")
    ends_s, sizes = columns["end_s"][rows], np.array(values, np.float64)
    for lane, own in _rows_by_lane(columns["lane"][rows], np.arange(len(rows))).items():
        yield f"bytes_per_s/{texts[lane]}", _rates(ends_s[own], sizes[own], edges_s)


def _staleness(trace: EventLog, edges_s: np.ndarray) -> Iterator[Series]:
    columns, texts = trace.spans.columns(), trace.names.texts
    updates = stale_updates(trace)
    for server, own in _rows_by_lane(columns["lane"][updates.row], np.arange(len(updates.row))).items():
        bin_of = _bins(updates.end_s[own], edges_s)
        count = np.bincount(bin_of, minlength=len(edges_s) - 1)
        total = np.bincount(bin_of, updates.staleness[own], minlength=len(edges_s) - 1)
        yield f"staleness/{texts[server]}", np.where(count > 0, total / np.maximum(count, 1), np.nan).tolist()


def _rows_by_lane(lanes: np.ndarray, rows: np.ndarray) -> dict[int, np.ndarray]:
    """Some rows by the code of their lane, each lane's in ascending order."""
    order = rows[np.argsort(lanes[rows], kind="stable")]
    codes, firsts = np.unique(lanes[order], return_index=True)
    return dict(zip(codes.tolist(), np.split(order, firsts[1:]), strict=True)) if len(rows) else {}


def _rates(end_s: np.ndarray, weights: np.ndarray | None, edges_s: np.ndarray) -> list[float]:
    """What ended in each bin, by virtual second."""
    return (np.bincount(_bins(end_s, edges_s), weights, minlength=len(edges_s) - 1) / np.diff(edges_s)).tolist()


def _bins(time_s: np.ndarray, edges_s: np.ndarray) -> np.ndarray:
    """The bin of each moment; a moment on an edge belongs to the bin that it ends."""
    return np.clip(np.searchsorted(edges_s, time_s, side="left") - 1, 0, len(edges_s) - 2)
