"""The three kinds of record, and the table that keeps their names.

A *span* is work from one moment to another, an *instant* is a single moment (a fault, a retry, a detection), and a
*counter* is a number that changes (queue length). Records are built when they are read; a log keeps columns
(columns.py), in which a text is a small integer.

A lane is the place where a record is drawn: a task (``worker:1``) or one device of a task (``worker:0/gpu:1``).

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

__all__ = ["NO_FACTS", "Counter", "Facts", "Instant", "Names", "Span", "task_of"]

# What a record carries besides its times, by name: numbers, texts, or what
# `facts.plain` makes plain. Who records a fact knows its type.
Facts: TypeAlias = Mapping[str, Any]

NO_FACTS: Facts = {}


@dataclass(frozen=True)
class Span:
    """Work of one lane from `start_s` to `end_s`, with facts such as bytes or a closure's number."""

    lane: str
    category: str
    name: str
    start_s: float
    end_s: float
    facts: Facts

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Instant:
    """One moment of one lane: a fault, a retry, a detection, a restart."""

    lane: str
    category: str
    name: str
    time_s: float
    facts: Facts


@dataclass(frozen=True)
class Counter:
    """The value of a named quantity of one lane, from `time_s` on."""

    lane: str
    name: str
    time_s: float
    value: float


def task_of(lane: str) -> str:
    """The task that a lane belongs to.

    Example:
        >>> task_of("worker:0/gpu:1"), task_of("ps:0")
        ('worker:0', 'ps:0')
    """
    return lane.partition("/")[0]


class Names:
    """Strings kept once: a column holds small integers, this table holds the text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        code = self.codes.get(text)
        if code is None:
            code = self.codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def encode(self, *columns: Sequence[str]) -> list[np.ndarray]:
        """The codes of columns of equal length n, each int32 of shape (n,); new texts are numbered row by row."""
        try:
            return [self._known(column) for column in columns]
        except KeyError:
            # Row by row, so that the numbers do not depend on how many rows are encoded at a time.
            for text in chain.from_iterable(zip(*columns, strict=True)):
                if text not in self.codes:
                    self.code(text)
            return [self._known(column) for column in columns]

    def _known(self, column: Sequence[str]) -> np.ndarray:
        return np.fromiter(map(self.codes.__getitem__, column), np.int32, len(column))
