"""The states and the rows of all branches, for places without a kernel: an exported page, a notebook that was saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from simdist_widgets.lab_branches import Branch
from simdist_widgets.log_feed import LogFeed

__all__ = ["count_rows", "recorded"]

Rows = list[tuple[dict[str, Any], bytes]]


def recorded(branches: Iterable[Branch], state_of: Callable[[Branch], dict[str, Any]]) -> tuple[Rows, dict[str, Any]]:
    """The messages with the rows of each branch, header and bytes, and the state of each by its number."""
    rows: Rows = []
    states: dict[str, Any] = {}
    for branch in branches:
        states[str(branch.number)] = state_of(branch)
        found = LogFeed().take(branch.session.trace)
        if found is not None:
            rows.append(({"kind": "rows", "branch": branch.number, **found[0]}, found[1]))
    return rows, states


def count_rows(branches: Iterable[Branch]) -> int:
    """How many rows `recorded` would give."""
    traces = [branch.session.trace for branch in branches]
    return sum(len(trace.spans) + len(trace.instants) + len(trace.counters) for trace in traces)
