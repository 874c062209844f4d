"""The digest of a trace: sixteen digits that prove that two runs were the same.

What happened, where and when goes through SHA-256: the seed, lanes, spans, instants, counters and totals, in the
order in which they were recorded, times as the exact bytes of their float64.

Invariants: the digest does not depend on the codes that names happened to get, on the order of facts, on hash seeds
or on byte order. Looking changes nothing: instants of the category ``observe`` and what
`Trace.value_dependent` says are left out, so that a print or a fetch that is added to a program keeps its digest.

Taught in lesson 00.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import islice

import numpy as np

from simdist.trace.columns import CounterLog, InstantLog, SpanLog
from simdist.trace.event_log import EventLog
from simdist.trace.facts import canonical_json

__all__ = ["digest"]

FORMAT = "simdist trace 1"  # change it when the encoding changes
DIGITS = 16
ROWS_A_TIME = 1 << 16  # facts are written in pieces, so that memory stays small

Write = Callable[[bytes], None]


def digest(trace: EventLog) -> str:
    """The first sixteen hexadecimal digits of the SHA-256 of a trace.

    Args:
        trace: the log of a run.

    Returns:
        Text of sixteen characters, equal for two runs exactly when the same things happened at the same times.

    Raises:
        InvalidArgumentError: if a fact has no text that is the same in every process.

    Example:
        >>> from simdist.trace import Trace
        >>> first, second = Trace(seed=1), Trace(seed=1)
        >>> first.span("ps:0", "apply", "sgd", 0.0, 0.5, bytes=8, step=1)
        >>> second.span("ps:0", "apply", "sgd", 0.0, 0.5, step=1, bytes=8)
        >>> digest(first) == digest(second)
        True
    """
    sha = hashlib.sha256()

    def write(piece: bytes) -> None:
        # The length in front keeps two pieces from being read as two others.
        sha.update(len(piece).to_bytes(8, "little"))
        sha.update(piece)

    _write_json(write, [FORMAT, trace.seed, trace.lanes])
    _write_spans(write, trace.spans)
    _write_instants(write, trace.instants)
    _write_counters(write, trace.counters)
    _write_json(write, sorted((lane, name, _exact(amount)) for (lane, name), amount in trace.totals.items()))
    return sha.hexdigest()[:DIGITS]


def _write_json(write: Write, value: object) -> None:
    write(canonical_json(value).encode())


def _exact(number: float) -> str:
    return float(number).hex()


def _write_spans(write: Write, spans: SpanLog) -> None:
    columns = spans.columns()
    _write_names(write, spans.names.texts, columns["lane"], columns["category"], columns["name"])
    _write_floats(write, columns["start_s"])
    _write_floats(write, columns["end_s"])
    _write_facts(write, spans.facts.items())


def _write_instants(write: Write, instants: InstantLog) -> None:
    rows = (
        (index, [item.lane, item.category, item.name, _exact(item.time_s), item.facts])
        for index, item in enumerate(item for item in instants if item.category != "observe")
    )
    _write_facts(write, rows)


def _write_counters(write: Write, counters: CounterLog) -> None:
    columns = counters.columns()
    _write_names(write, counters.names.texts, columns["lane"], columns["name"])
    _write_floats(write, columns["time_s"])
    _write_floats(write, columns["value"])


def _write_names(write: Write, texts: list[str], *columns: np.ndarray) -> None:
    """Columns of name codes, renumbered in the order in which the names first appear in the rows."""
    codes = np.stack(columns, axis=1).ravel()
    # Assigning backwards leaves the first position of each code in the table.
    first = np.full(len(texts), len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    order = np.argsort(first, kind="stable")[: int((first < len(codes)).sum())]
    renumbered = np.zeros(len(texts), np.int32)
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    _write_json(write, [texts[code] for code in order])
    write(renumbered[codes].astype("<i4").tobytes())


def _write_floats(write: Write, column: np.ndarray) -> None:
    write(column.astype("<f8").tobytes())


def _write_facts(write: Write, rows: Iterable[tuple[int, object]]) -> None:
    """Pairs of row number and facts; an empty piece ends them."""
    rows = iter(rows)
    while piece := list(islice(rows, ROWS_A_TIME)):
        _write_json(write, piece)
    write(b"")
