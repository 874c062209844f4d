"""The digest of traces in their first format, from the records that a trace hands out.

It knows nothing of how a trace keeps its columns, so it proves that a new way of keeping them has the same records: `compare.py`
asks it about both engines, and digests that were stored in the first format stay comparable.
"""

from __future__ import annotations

import hashlib
import json
from itertools import chain
from typing import Any

import numpy as np

from simdist.trace.facts import canonical_json

__all__ = ["first_format_digest"]

ROWS_A_TIME = 1 << 16


def first_format_digest(trace: Any) -> str:
    """Sixteen hexadecimal digits."""
    sha = hashlib.sha256()

    def write(piece: bytes) -> None:
        sha.update(len(piece).to_bytes(8, "little") + piece)

    def write_names(columns: list[tuple[str, ...]]) -> None:
        codes: dict[str, int] = {}
        numbers = [codes.setdefault(text, len(codes)) for text in chain.from_iterable(columns)]
        write(json.dumps(list(codes), separators=(",", ":")).encode())
        write(np.array(numbers, "<i4").tobytes())

    def write_facts(rows: list[tuple[int, object]]) -> None:
        for first in range(0, len(rows), ROWS_A_TIME):
            write(canonical_json(rows[first : first + ROWS_A_TIME]).encode())
        write(b"")

    spans, counters = list(trace.spans), list(trace.counters)
    instants = [item for item in trace.instants if item.category != "observe"]
    write(canonical_json(["simdist trace 1", trace.seed, trace.lanes]).encode())
    write_names([(span.lane, span.category, span.name) for span in spans])
    write(np.array([span.start_s for span in spans], "<f8").tobytes())
    write(np.array([span.end_s for span in spans], "<f8").tobytes())
    write_facts([(row, span.facts) for row, span in enumerate(spans) if span.facts])
    write_facts([(row, [i.lane, i.category, i.name, float(i.time_s).hex(), i.facts]) for row, i in enumerate(instants)])
    write_names([(item.lane, item.name) for item in counters])
    write(np.array([item.time_s for item in counters], "<f8").tobytes())
    write(np.array([item.value for item in counters], "<f8").tobytes())
    totals = sorted((lane, name, float(amount).hex()) for (lane, name), amount in trace.totals.items())
    write(canonical_json(totals).encode())
    return sha.hexdigest()[:16]
