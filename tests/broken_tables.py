"""Tables of transitions that are wrong in one row, for tests that have to notice it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from simdist.transitions import Ignored, Move, TransitionTable

__all__ = ["broken_tables"]


def broken_tables(table: TransitionTable[Any, Any, Any], states: Iterable[Any], decisions: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """What is wrong, in words, and the table: each row in turn is missing, leads elsewhere, or decides something else."""
    for (state, fact), row in table.rows.items():
        others: list[Any] = [None]
        if isinstance(row, Ignored):
            others += [Move(to) for to in states if to is not state]
        else:
            others += [Ignored("broken"), *(Move(to, row.decisions) for to in states if to is not row.to)]
            others += [Move(row.to, (decision,)) for decision in decisions if (decision,) != row.decisions]
            others += [Move(row.to)] if row.decisions else []
        for other in others:
            rows = {**table.rows, (state, fact): other}
            wrong = TransitionTable(table.name, table.start, {key: value for key, value in rows.items() if value is not None})
            yield f"({state}, {fact}) -> {other}", wrong
