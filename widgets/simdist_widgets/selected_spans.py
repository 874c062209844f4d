"""Between the spans of a trace that are selected and the numbers of their records, by which a front end knows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.trace import Trace

__all__ = ["numbers_of", "spans_of"]


def spans_of(trace: Trace, numbers: Sequence[int]) -> Any:
    """The spans of some records as rows of a DataFrame; records that are no spans are left out."""
    rows = trace.span_rows()
    chosen = [rows[number] for number in numbers if 0 <= number < trace.recorded and rows[number] >= 0]
    return trace.to_dataframe().iloc[chosen]


def numbers_of(trace: Trace, spans: Any) -> list[int]:
    """The numbers of the records of spans.

    Args:
        trace: that has recorded them.
        spans: rows of ``trace.to_dataframe()``, or numbers of records.

    Raises:
        InvalidArgumentError: the trace has no such record.
        TypeError: something else was given.

    Example:
        >>> trace = Trace()
        >>> _ = trace.instant("worker:0", "crash", "crash of worker:0", 0.0)
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> numbers_of(trace, trace.to_dataframe()), numbers_of(trace, [1])
        ([1], [1])
    """
    if hasattr(spans, "index") and hasattr(spans, "iloc"):
        records = np.flatnonzero(np.asarray(trace.span_rows()) >= 0)
        return [int(records[_checked(row, len(records), "row")]) for row in spans.index.tolist()]
    if isinstance(spans, str) or not isinstance(spans, Iterable):
        raise TypeError(
            f"selection was given {type(spans).__name__}; expected rows of session.trace.to_dataframe(), or numbers of records."
        )
    return [_checked(number, trace.recorded, "record") for number in spans]


def _checked(value: Any, count: int, what: str) -> int:
    number = whole_number(value, what, 0)
    if number >= count:
        raise InvalidArgumentError(f"selection has {what} {number}; the trace has {count}, counted from 0.")
    return number
