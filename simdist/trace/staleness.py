"""Staleness of gradients, counted in updates.

The staleness of an update is the number of updates that its server applied between the moment at which the worker read
the variables and the moment at which the worker's own update was applied. With n workers that take turns it is at most
n - 1; in synchronous training it is 0.

The program says it by two facts of an ``apply`` span: ``version``, the version of the group of variables that this update
made, and ``read_version``, the one that the worker had read. The staleness is ``version - 1 - read_version``, exactly, also
where a server holds several groups. An update with a version that names no version that was read is of a worker that pushes
blindly, or whose variables are its own: it has no staleness.

Of logs with neither fact it is found by time: an ``apply`` span of a server names its ``worker``, and a ``read`` span lies on
the worker's lane. The read that counts is the worker's last one that was over when the update began to be applied; all updates
of the server are counted. An update of a worker that never read has none.

Source: the count of missed updates is the staleness of Dean et al., "Large Scale Distributed Deep Networks", 2012, and
of Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013.

Taught in lessons 00 and 05.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdist.trace.by_key import count_until
from simdist.trace.event_log import EventLog

__all__ = ["Updates", "stale_updates", "staleness_by_lane"]

UNKNOWN = -1


@dataclass(frozen=True)
class Updates:
    """Updates whose staleness is known, in the order in which they were applied, as n rows.

    Attributes:
        row: of the ``apply`` span in the log (int64).
        end_s: when it had been applied, in virtual seconds (float64).
        staleness: updates applied between read and apply (int64).
    """

    row: np.ndarray
    end_s: np.ndarray
    staleness: np.ndarray


def stale_updates(trace: EventLog) -> Updates:
    """The staleness of every update of a run.

    Args:
        trace: the log of the run.

    Returns:
        The updates whose staleness is known.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "read", "read", 0.0, 1.0)
        >>> _ = trace.span("worker:1", "read", "read", 0.0, 1.0)
        >>> _ = trace.span("ps:0", "apply", "sgd", 3.0, 4.0, worker="worker:0")
        >>> _ = trace.span("ps:0", "apply", "sgd", 4.0, 5.0, worker="worker:1")
        >>> stale_updates(trace).staleness.tolist()
        [0, 1]
    """
    columns = trace.spans.columns()
    applied = trace.spans.rows_where(category="apply")
    staleness = np.full(len(columns["lane"]), UNKNOWN)
    read_end_s = _read_ends_s(trace, columns)[applied]
    servers, ends_s = columns["lane"][applied], columns["end_s"][applied]
    seen = count_until(servers, ends_s, servers, read_end_s)
    staleness[applied] = np.where(np.isnan(read_end_s), UNKNOWN, np.maximum(_ranks(servers, ends_s) - seen, 0))
    versioned, rows, reported = _reported(trace)
    staleness[versioned] = UNKNOWN  # what was read is known, too, if anything was
    staleness[rows] = reported
    known = applied[staleness[applied] >= 0]
    return Updates(known, columns["end_s"][known], staleness[known])


def staleness_by_lane(trace: EventLog, stale: Updates) -> dict[str, tuple[float, int]]:
    """The mean and the largest staleness of the updates on each lane.

    Args:
        trace: the log of the run.
        stale: its updates (`stale_updates`).

    Returns:
        (mean, largest) by lane; lanes without updates are missing.

    Example:
        >>> from simdist.trace import Trace
        >>> trace = Trace()
        >>> for version in (1, 2):
        ...     _ = trace.span("ps:0", "apply", "sgd", 0.0, 1.0, read_version=0, version=version)
        >>> staleness_by_lane(trace, stale_updates(trace))
        {'ps:0': (0.5, 1)}
    """
    lanes, numbers = np.unique(trace.spans.lane[stale.row], return_inverse=True)
    total, largest = np.zeros(len(lanes), np.int64), np.zeros(len(lanes), np.int64)
    np.add.at(total, numbers, stale.staleness)
    np.maximum.at(largest, numbers, stale.staleness)
    means = total / np.bincount(numbers, minlength=len(lanes))
    names = [trace.names.texts[lane] for lane in lanes.tolist()]
    return dict(zip(names, zip(means.tolist(), largest.tolist(), strict=True), strict=True))


def _read_ends_s(trace: EventLog, columns: dict[str, np.ndarray]) -> np.ndarray:
    """For each row the end of the read that its update stands on, in virtual seconds; NaN where there is none."""
    found = np.full(len(columns["lane"]), np.nan)
    rows, lanes = trace.spans.integers_of("worker", lambda worker: trace.names.codes.get(str(worker), -1))
    reads = trace.spans.rows_where(category="read")
    reads = reads[np.lexsort((columns["end_s"][reads], columns["lane"][reads]))]
    over = count_until(columns["lane"][reads], columns["end_s"][reads], lanes, columns["start_s"][rows])
    last = np.searchsorted(columns["lane"][reads], lanes) + over - 1  # of the reads on the worker's lane
    found[rows[over > 0]] = columns["end_s"][reads[last[over > 0]]]
    return found


def _ranks(servers: np.ndarray, ends_s: np.ndarray) -> np.ndarray:
    """How many updates of its server came before each update."""
    order = np.lexsort((ends_s, servers))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.searchsorted(servers[order], servers[order])
    return ranks


def _reported(trace: EventLog) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows that have one of the two facts; those that have both, and their staleness: int64 of shape (n,) each."""
    rows, read = trace.spans.integers_of("read_version")
    others, made = trace.spans.integers_of("version")
    both, first, second = np.intersect1d(rows, others, assume_unique=True, return_indices=True)
    return np.union1d(rows, others), both, made[second] - 1 - read[first]
