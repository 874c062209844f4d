"""Kinds of spans: what is equal in many spans is written once.

Thousands of spans differ only in their times and in one or two numbers: the reads of worker:3, the applies of its
gradients on ps:0. Such spans share a *kind*: lane, category, name, the facts that never change, and the names of at
most two numbers that do. A span is then five numbers: kind, start, end, and the two.

A name may show a number of its span: a kind named ``closure {closure}`` has spans named ``closure 7``.

Invariants: a kind is declared once and never changes; equal declarations have one number. Whether a fact is a number of
the span or part of the kind does not depend on who declares it: `derive` says it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simdist.trace.facts import canonical_json
from simdist.trace.records import NO_FACTS, Facts, Names

__all__ = ["Kinds", "SpanKind"]

NUMBERS = 2  # of a span, besides its times
CODES = 3  # of a kind
EXACT = 2**53  # integers below it are exact in a float64

Numbers = tuple[tuple[str, type], ...]


@dataclass(frozen=True, slots=True)
class SpanKind:
    """What all spans of a kind have in common.

    Attributes:
        lane, category, name: of its spans; ``{fact}`` in a name stands for that number of the span.
        numbers: name and type of each fact that is a number of the span, at most two, by the alphabet.
        facts: the facts that are the same in all of them.
    """

    lane: str
    category: str
    name: str
    numbers: Numbers = ()
    facts: Facts = field(default_factory=dict[str, Any])

    @property
    def numbered(self) -> bool:
        """Whether the name of a span shows one of its numbers."""
        return "{" in self.name and any("{" + name + "}" in self.name for name, _ in self.numbers)

    @property
    def text(self) -> str:
        """The kind as the digest sees it: equal for kinds that say the same."""
        numbers = [(name, "int" if issubclass(kind, int | np.integer) else "float") for name, kind in self.numbers]
        return canonical_json([self.lane, self.category, self.name, numbers, self.facts])

    def facts_of(self, a: float, b: float) -> Facts:
        """All facts of a span with these numbers."""
        if not self.numbers:
            return self.facts
        return {**self.facts, **{name: kind(value) for (name, kind), value in zip(self.numbers, (a, b), strict=False)}}

    def name_of(self, a: float, b: float) -> str:
        """The name of a span with these numbers."""
        if not self.numbered:
            return self.name
        name = self.name
        for (fact, kind), value in zip(self.numbers, (a, b), strict=False):
            name = name.replace("{" + fact + "}", str(kind(value)))
        return name


class Kinds:
    """The kinds of one log by number, in the order in which they were declared.

    Attributes:
        all: the kinds.
        names: the texts of their lanes, categories and names.

    Example:
        >>> kinds = Kinds()
        >>> kinds.number("ps:0", "apply", "sgd", {"version": int}, {"worker": "worker:1"})
        0
        >>> kinds.derive("ps:0", "apply", "sgd", {"worker": "worker:1", "version": 7})
        (0, 7, 0.0)
        >>> kinds.all[0].facts_of(7, 0.0)
        {'worker': 'worker:1', 'version': 7}
    """

    def __init__(self) -> None:
        self.all: list[SpanKind] = []
        self.names = Names()
        self._numbers: dict[tuple[object, ...], int] = {}
        self._codes = array("i")  # lane, category, name of each kind, one after the other

    def number(self, lane: str, category: str, name: str, numbers: Mapping[str, type] = NO_FACTS, facts: Facts = NO_FACTS) -> int:
        """The number of a kind, which is declared where it is new.

        Args:
            lane, category, name: of its spans.
            numbers: the type of each fact that differs from span to span, by name; at most two.
            facts: the others.
        """
        columns = tuple(sorted(numbers.items()))
        constant = (canonical_json(facts), *map(type, facts.values())) if facts else ()
        key = (lane, category, name, columns, constant)
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self.all)
            kind = SpanKind(lane, category, name, columns, dict(facts))
            self.all.append(kind)
            # A numbered name has a code for each of its spans, made when somebody asks for it.
            self._codes.extend((self.names.code(lane), self.names.code(category), -1 if kind.numbered else self.names.code(name)))
        return known

    def derive(self, lane: str, category: str, name: str, facts: Facts) -> tuple[int, float, float]:
        """The kind of a span with these facts, and its two numbers.

        Raises:
            InvalidArgumentError: a fact has no text that is the same in every process.
        """
        if not facts:
            return self.number(lane, category, name), 0.0, 0.0
        chosen = [fact for fact in sorted(facts) if _is_number(facts[fact])][:NUMBERS]
        number = self.number(
            lane,
            category,
            name,
            {fact: type(facts[fact]) for fact in chosen},
            {fact: value for fact, value in facts.items() if fact not in chosen},
        )
        a, b = [*(facts[fact] for fact in chosen), 0.0, 0.0][:NUMBERS]
        return number, a, b

    def codes(self) -> np.ndarray:
        """Codes of lane, category and name by kind: int32 of shape (kinds, 3); -1 for a name that shows a number."""
        return np.array(self._codes, np.int32).reshape(-1, CODES)


def _is_number(value: object) -> bool:
    if isinstance(value, float | np.floating):
        return True
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(-EXACT < value < EXACT)
