"""The answers of a pure filter, by row of a table.

A predicate that calls lookup tables is first tried on whole columns (row_blocks.py), all rows at once.

Invariants: each row is asked once; a row on which the function raises does so when its turn comes.

Taught in lesson 08.
"""

from __future__ import annotations

import numpy as np

from simdist.data.leaves import Array, ElementFunction
from simdist.data.purity import Answer, answers, ask, truth
from simdist.data.reach import reached
from simdist.data.row_blocks import agreed_columns
from simdist.data.row_wise import Record, recorded
from simdist.data.surroundings import warn_of_changed_names
from simdist.data.table import Table

__all__ = ["Predicate", "predicate"]


class Predicate:
    """A pure filter's answers, by row, found when a row is first met."""

    def __init__(self, table: Table, fn: ElementFunction, known: dict[int, Answer], used: Record) -> None:
        self.table = table
        self.fn = fn
        self.unknown = np.ones(table.num_rows, bool)
        self.keeps = np.zeros(table.num_rows, bool)
        self._known = known
        self._used = used
        self._tried = False
        for row, answer in known.items():
            if not isinstance(answer, Exception):
                self.note(row, answer)

    def note(self, row: int, answer: Answer) -> None:
        self.keeps[row] = truth(answer, self.fn)
        self.unknown[row] = False

    def decide(self, rows: Array) -> tuple[Array, Exception | None]:
        """Which of `rows` are kept (bool, shape [b]), up to the first row that raises, and what it raised."""
        if not self._tried and self._used and self.unknown[rows].any():
            self.try_columns()
        for position in np.flatnonzero(self.unknown[rows]).tolist():
            try:
                self.note(int(rows[position]), self.answer(int(rows[position])))
            except Exception as error:
                return self.keeps[rows[:position]], error
        return self.keeps[rows], None

    def answer(self, row: int) -> Answer:
        """What the function answers on one row, with the lookup tables as they were."""
        return recorded(self._used, lambda: ask(self.fn, self.table, row))

    def known_answer(self, row: int) -> Answer:
        return self._known[row] if row in self._known else self.answer(row)

    def try_columns(self) -> None:
        """Ask for all rows in one call of the function, where that gives what single calls give."""
        self._tried = True
        if self.table.unvisited:
            return
        found = recorded(self._used, lambda: agreed_columns(self.fn, self.table, self.known_answer))
        if found is not None and len(found.columns) == 1 and found.columns[0].ndim == 1 and found.columns[0].dtype == bool:
            self.keeps = np.where(self.unknown, found.columns[0], self.keeps)
            self.unknown &= found.failed

    @property
    def drops_all(self) -> bool:
        """True once it is certain that no row passes."""
        return not self.unknown.any() and not self.keeps.any()


def predicate(source: Table, fn: ElementFunction, pure: bool | None) -> Predicate | None:
    """The pure filter of `fn` over `source`; None if `fn` is not pure."""
    if pure is False:
        return None
    warn_of_changed_names(fn, "the dataset")
    used: Record = {}
    known: dict[int, Answer] | None = {}
    if pure is None:
        reach = reached(fn)
        known = None if reach.generator is not None else recorded(used, lambda: answers(fn, source, reach))
    return None if known is None else Predicate(source, fn, known, used)
