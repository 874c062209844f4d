"""Staleness of gradients, counted in updates.

The staleness of an update is the number of updates that its server applied between the moment at which the worker read
the variables and the moment at which the worker's own update was applied. With n workers that take turns it is at most
n - 1; in synchronous training it is 0.

Facts that are needed: an ``apply`` span of a server names its ``worker``; a ``read`` span lies on the worker's lane. The
read that counts is the worker's last one that was over when the update began to be applied. Better, where the program
knows it: a fact ``read_version`` on the ``apply`` span, the server's version that the worker had read; with the fact
``version`` (the version that this update made) the staleness is then ``version - 1 - read_version``, exactly, also
where a server holds several groups of variables.

An update of a worker that never read over the network (its variables are its own, or it pushes blindly) has none.

Source: the count of missed updates is the staleness of Dean et al., "Large Scale Distributed Deep Networks", 2012, and
of Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdist.trace.event_log import EventLog

__all__ = ["Updates", "stale_updates"]

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
    read_end_s = _read_ends_s(trace, columns)
    for server in np.unique(columns["lane"][applied]).tolist():
        rows = applied[columns["lane"][applied] == server]
        ends_s = columns["end_s"][rows]
        seen = np.searchsorted(np.sort(ends_s), read_end_s[rows], side="right")
        staleness[rows] = np.where(np.isnan(read_end_s[rows]), UNKNOWN, np.maximum(_ranks(ends_s) - seen, 0))
    for row, versions in _said(trace).items():
        staleness[row] = versions
    known = applied[staleness[applied] >= 0]
    return Updates(known, columns["end_s"][known], staleness[known])


def _read_ends_s(trace: EventLog, columns: dict[str, np.ndarray]) -> np.ndarray:
    """For each row the end of the read that its update stands on, in virtual seconds; NaN where there is none."""
    found = np.full(len(columns["lane"]), np.nan)
    rows, workers = trace.spans.values_of("worker")
    known = trace.names.codes
    codes = np.array([known.get(str(worker), -1) for worker in workers], np.int64)
    for worker in np.unique(codes[codes >= 0]).tolist():
        reads_s = np.sort(columns["end_s"][trace.spans.rows_where(lane=trace.names.texts[worker], category="read")])
        own = rows[codes == worker]
        last = np.searchsorted(reads_s, columns["start_s"][own], side="right") - 1
        if len(reads_s):
            found[own] = np.where(last >= 0, reads_s[last], np.nan)
    return found


def _ranks(ends_s: np.ndarray) -> np.ndarray:
    """How many updates of a server came before each of its updates."""
    ranks = np.empty(len(ends_s), np.int64)
    ranks[np.argsort(ends_s, kind="stable")] = np.arange(len(ends_s))
    return ranks


def _said(trace: EventLog) -> dict[int, int]:
    """The staleness of the rows that say themselves which version was read."""
    spans = trace.spans
    read = dict(zip(*_pairs(spans.values_of("read_version")), strict=True))
    made = dict(zip(*_pairs(spans.values_of("version")), strict=True)) if read else {}
    return {row: int(made[row]) - 1 - int(version) for row, version in read.items() if row in made}


def _pairs(found: tuple[np.ndarray, list[int]]) -> tuple[list[int], list[int]]:
    return found[0].tolist(), found[1]
