"""The three kinds of record, and the table that keeps their names.

A *span* is work from one moment to another, an *instant* is a single moment (a fault, a retry, a detection), and a
*counter* is a number that changes (queue length). Records are built when they are read; a log keeps columns
(`growing.py`), in which a text is a small integer.

A lane is the place where a record is drawn: a task (``worker:1``) or one device of a task (``worker:0/gpu:1``).

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["NETWORK", "NO_CAUSE", "NO_FACTS", "Counter", "Facts", "Instant", "Names", "Span", "task_of"]

# What a record carries besides its times, by name: numbers, texts, or what
# `facts.plain` makes plain. Who records a fact knows its type.
Facts: TypeAlias = Mapping[str, Any]

NO_FACTS: Facts = {}
NO_CAUSE = -1

NETWORK = "/network"
"""Ends the lane that shows what a device sends and receives while it computes."""


@dataclass(frozen=True)
class Span:
    """Work of one lane from `start_s` to `end_s`, with facts such as bytes or a closure's number.

    `cause` is the number of the last record that the work waited for, or -1; spans that differ in it alone are equal.
    """

    lane: str
    category: str
    name: str
    start_s: float
    end_s: float
    facts: Facts
    cause: int = field(default=NO_CAUSE, compare=False)

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
    cause: int = field(default=NO_CAUSE, compare=False)


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
