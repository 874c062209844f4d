"""A trace as the front end reads it: a small JSON header and one block of bytes that holds the columns.

Rows are sorted by lane, then start, longer spans first; `lane_first` tells where each lane begins. A span takes 17
bytes: start (float64, because a view may be a microsecond wide after hours), duration (float32), name (uint32),
category (uint8). Facts are JSON texts one after the other, with the row and the end of each; texts of spans beyond
MOST_FACTS are left out, and the header says how many. A task that was not restarted gets a down time up to the end, which the log does
not hold as a span. The other side is src/trace_data.ts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simdist.trace import Trace
from simdist.trace.down_times import unfinished_down_times
from simdist.trace.plots import EMPTY_TEXT, lane_names
from simdist.trace.styles import MARK_STYLES, SPAN_STYLES, mark_style, span_style

MOST_FACTS = 100_000
ALIGNMENT = 8
DOWN, NOT_RESTARTED = "down", {"until": "the end of the trace: not restarted"}
DTYPES = {np.dtype("f8"): "f8", np.dtype("f4"): "f4", np.dtype("u4"): "u4", np.dtype("u1"): "u1"}


def encode(trace: Trace) -> tuple[dict[str, Any], bytes]:
    """The header and the bytes of a trace, in the form that the timeline's front end reads.

    Args:
        trace: the log; what is recorded later is not seen.

    Returns:
        A JSON-able dict, and bytes.

    Example:
        >>> trace = Trace()
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> header, data = encode(trace)
        >>> header["lanes"], header["columns"]["span_start"]["length"]
        (['worker:0'], 1)
    """
    lanes = lane_names(trace)
    name = trace.spans.name  # first, since it gives codes to names that show a number
    names = dict.fromkeys(trace.names.texts)
    names.update(dict.fromkeys(instant.name for instant in trace.instants))
    unfinished = unfinished_down_times(trace)
    present = {trace.names.texts[code] for code in np.unique(_int32(trace.spans.category))}
    kinds = _in_order(SPAN_STYLES, present | {DOWN} if unfinished else present)
    marks = _in_order(MARK_STYLES, (instant.category for instant in trace.instants))
    if unfinished:
        names[DOWN] = None
    names_in_order = list(names)
    table = _with_down_times(_Rows.of(trace, lanes, kinds, name), unfinished, trace.end_s(), lanes, kinds, names_in_order)
    spans, left_out = _spans(trace, lanes, table)
    columns = {"names": json.dumps(names_in_order).encode(), **spans, **_instants(trace, lanes, marks, names_in_order)}
    sections, data = pack(columns)
    first_s = min(min(trace.spans.start, default=0.0), min((i.time_s for i in trace.instants), default=0.0), 0.0)
    header = {
        "version": 2,
        "lanes": lanes,
        "kinds": [{"name": k, "color": span_style(k).color, "level": span_style(k).level} for k in kinds],
        "marks": [{"name": m, **_mark(m)} for m in marks],
        "first_s": first_s,
        "last_s": trace.end_s(),
        "facts_left_out": left_out,
        "not_restarted": len(unfinished),
        "empty_text": "" if len(trace.spans) or len(trace.instants) else EMPTY_TEXT,
        "columns": sections,
    }
    return header, data


def pack(columns: Mapping[str, np.ndarray | bytes]) -> tuple[dict[str, dict[str, Any]], bytes]:
    """Puts columns behind each other, each at a multiple of 8 bytes.

    Args:
        columns: arrays of float64, float32, uint32 or uint8, or UTF-8 text, by name.

    Returns:
        The place of each column (dtype, offset in bytes, length in elements), and the bytes.

    Example:
        >>> places, data = pack({"a": np.zeros(3, np.uint8), "b": np.ones(1, np.float64)})
        >>> places["b"], len(data)
        ({'dtype': 'f8', 'offset': 8, 'length': 1}, 16)
    """
    sections: dict[str, dict[str, Any]] = {}
    parts: list[bytes] = []
    offset = 0
    for name, column in columns.items():
        text = isinstance(column, bytes)
        raw = column if text else column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
        sections[name] = {"dtype": "utf8" if text else DTYPES[column.dtype], "offset": offset, "length": len(column)}
        padding = -len(raw) % ALIGNMENT
        parts += [raw, bytes(padding)]
        offset += len(raw) + padding
    return sections, b"".join(parts)


def _mark(category: str) -> dict[str, Any]:
    style = mark_style(category)
    return {"color": style.color, "level": style.level, "body": style.glyph.body, "sign": style.glyph.sign}


def _in_order(known: Iterable[str], present: Iterable[str]) -> list[str]:
    """The names that are present: known ones in their order, others after them by the alphabet."""
    found = set(present)
    ordered = [name for name in known if name in found]
    return ordered + sorted(found.difference(ordered))


@dataclass(frozen=True)
class _Rows:
    """Columns of spans in the order of the log, each of length n; the facts are those of row i where i < n of the log."""

    lane: np.ndarray
    start_s: np.ndarray
    duration_s: np.ndarray
    name: np.ndarray
    kind: np.ndarray

    @staticmethod
    def of(trace: Trace, lanes: list[str], kinds: list[str], name: np.ndarray) -> _Rows:
        columns = trace.spans.columns()
        texts = len(trace.names.texts)
        lane, kind = _renumber(columns["lane"], trace, lanes, texts), _renumber(columns["category"], trace, kinds, texts)
        return _Rows(lane, columns["start_s"], columns["end_s"] - columns["start_s"], name, kind)


def _with_down_times(
    rows: _Rows, since_s: Mapping[str, float], end_s: float, lanes: list[str], kinds: list[str], names: list[str]
) -> _Rows:
    """The rows of the log, and behind them one for each task that was not restarted."""
    count = len(since_s)
    if not count:
        return rows
    start_s, row_of_lane = np.array(list(since_s.values())), {lane: row for row, lane in enumerate(lanes)}
    return _Rows(
        np.append(rows.lane, [row_of_lane[lane] for lane in since_s]),
        np.append(rows.start_s, start_s),
        np.append(rows.duration_s, end_s - start_s),
        np.append(rows.name, np.full(count, names.index(DOWN))),
        np.append(rows.kind, np.full(count, kinds.index(DOWN))),
    )


def _spans(trace: Trace, lanes: list[str], rows: _Rows) -> tuple[dict[str, np.ndarray | bytes], int]:
    order = np.lexsort((-rows.duration_s, rows.start_s, rows.lane))
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.arange(len(order))
    recorded = len(trace.spans)
    with_facts: list[int] = trace.spans.rows_with_facts().tolist()
    chosen = [*with_facts[:MOST_FACTS], *range(recorded, len(order))]
    chosen.sort(key=lambda index: row_of[index])
    texts = [trace.spans.facts_of(index) if index < recorded else NOT_RESTARTED for index in chosen]
    facts = _facts("span", [int(row_of[index]) for index in chosen], texts)
    columns = (rows.lane, rows.start_s, rows.duration_s, rows.name, rows.kind)
    return _table("span", lanes, *(column[order] for column in columns)) | facts, max(0, len(with_facts) - MOST_FACTS)


def _instants(trace: Trace, lanes: list[str], marks: list[str], names: list[str]) -> dict[str, np.ndarray | bytes]:
    row_of_lane = {lane: row for row, lane in enumerate(lanes)}
    row_of_name = {name: row for row, name in enumerate(names)}
    sorted_instants = sorted(trace.instants, key=lambda instant: (row_of_lane[instant.lane], instant.time_s))
    lane = np.array([row_of_lane[instant.lane] for instant in sorted_instants], np.int64)
    time_s = np.array([instant.time_s for instant in sorted_instants], np.float64)
    name = np.array([row_of_name[instant.name] for instant in sorted_instants], np.int64)
    kind = np.array([marks.index(instant.category) for instant in sorted_instants], np.int64)
    rows = [row for row, instant in enumerate(sorted_instants) if instant.facts]
    facts = _facts("instant", rows, [sorted_instants[row].facts for row in rows])
    return _table("instant", lanes, lane, time_s, np.zeros_like(time_s), name, kind) | facts


def _table(
    prefix: str,
    lanes: list[str],
    lane: np.ndarray,
    start_s: np.ndarray,
    duration_s: np.ndarray,
    name: np.ndarray,
    kind: np.ndarray,
) -> dict[str, np.ndarray | bytes]:
    return {
        f"{prefix}_lane_first": np.searchsorted(lane, np.arange(len(lanes) + 1)).astype(np.uint32),
        f"{prefix}_start": start_s.astype(np.float64),
        f"{prefix}_duration": duration_s.astype(np.float32),
        f"{prefix}_name": name.astype(np.uint32),
        f"{prefix}_kind": kind.astype(np.uint8),
    }


def _facts(prefix: str, rows: Sequence[int], facts: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray | bytes]:
    texts = [json.dumps({str(k): _plain(v) for k, v in fact.items()}).encode() for fact in facts]
    ends = np.cumsum(np.array([len(text) for text in texts], np.uint32), dtype=np.uint32)
    return {
        f"{prefix}_fact_row": np.array(rows, np.uint32),
        f"{prefix}_fact_end": ends,
        f"{prefix}_fact_text": b"".join(texts),
    }


def _plain(value: Any) -> Any:
    """A fact as JSON holds it: numbers stay numbers, everything else becomes text."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return float(value)
    return str(value)


def _renumber(codes: np.ndarray, trace: Trace, order: list[str], texts: int) -> np.ndarray:
    """The codes of the log's table of names as positions in `order`."""
    position = np.zeros(max(texts, 1), np.int64)
    for index, name in enumerate(order):
        if name in trace.names.codes:
            position[trace.names.codes[name]] = index
    return position[codes]


def _int32(column: Any) -> np.ndarray:
    return np.asarray(column, np.int32)
