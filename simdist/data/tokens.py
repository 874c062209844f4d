"""Tokens of values: hashable stand-ins that are equal where the values are, and what a walk that makes them keeps.

Taught in lesson 08.
"""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np

from simdist.data.attributes import entries_of
from simdist.data.putting_back import put_entries
from simdist.data.watching import Same, Watches

__all__ = ["Tokens"]

MOST_OBJECTS = 2000  # that one walk looks at
MOST_ENTRIES = 100_000  # of all containers together
MOST_BYTES = 1 << 20  # of all arrays together
MOST_LEVELS = 60

PLAIN = frozenset({type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented)})
WRITTEN = frozenset({float, complex, range, slice, Decimal, Fraction, datetime.date, datetime.timedelta})  # repr says all
UNSURE = "unsure"

T = TypeVar("T")


class Tokens(ABC):
    """A walk that knows the names of attributes that code uses.

    Args:
        names: attributes that count.

    Attributes:
        found_names: names of attributes in the code that was reached.
        asked_for_names: whether an object with attributes was reached.
        is_certain: whether equal tokens are equal objects.
        generator: what was reached that gives another value each time.
        watches: what was reached.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.found_names: set[str] = set()
        self.asked_for_names = False
        self.is_certain = True
        self.generator: str | None = None
        self.watches = Watches()
        self._seen: dict[Hashable, int] = {}
        self._alive: list[object] = []  # so that no other object gets the number of one that was seen
        self._entries = MOST_ENTRIES
        self._bytes = MOST_BYTES
        self._level = 0

    def token(self, part: object) -> Hashable:
        """A hashable stand-in for an object and for all that it reaches."""
        kind = type(part)
        if kind in PLAIN:
            return kind, part
        if kind in WRITTEN:
            return kind, repr(part)
        return self.seen(part, id(part), self.token_by_rule)

    def seen(self, part: T, number: Hashable, find: Callable[[T], Hashable]) -> Hashable:
        """The token of an object; where it is met again, only which one it is."""
        if number in self._seen:
            return "seen", self._seen[number]
        if len(self._seen) >= MOST_OBJECTS or self._level >= MOST_LEVELS:
            return self.unsure()
        self._seen[number] = len(self._seen)
        self._alive.append(part)
        self._level += 1
        try:
            return find(part)
        finally:
            self._level -= 1

    @abstractmethod
    def token_by_rule(self, part: object) -> Hashable:
        """The token of an object that was not seen before, and is not a plain value."""

    def unsure(self) -> Hashable:
        self.is_certain = False
        return UNSURE

    def contents(self, part: Any) -> Hashable:
        """The entries of a container, whatever its class says about them."""
        items = self.watches.contents(lambda: entries_of(part), partial(put_entries, part))
        self._entries -= len(items)
        if self._entries < 0:
            return self.unsure()
        if isinstance(part, (set, frozenset)):
            return frozenset(map(self.token, items))
        kinds = tuple(map(type, items))
        return (kinds, *items) if PLAIN.issuperset(kinds) else tuple(map(self.token, items))

    def members(self, names: Mapping[str, object], implied: frozenset[str] = frozenset(), count_all: bool = False) -> Hashable:
        """The attributes that some code names, or that Python uses by itself."""
        self.asked_for_names = True
        self.watches.size(names)
        found = {name: value for name, value in names.items() if count_all or name in self.names or name in implied}
        for name, value in found.items():
            self.watches.bind(names, name, value)
        return tuple((name, self.token(value)) for name, value in found.items())

    def number(self, number: np.generic) -> Hashable:
        return self.unsure() if number.dtype.hasobject else ("number", number.dtype.str, number.dtype.name, number.tobytes())

    def dtype(self, dtype: np.dtype[Any]) -> Hashable:
        return self.unsure() if dtype.hasobject else (type(dtype), dtype.str, dtype.name, repr(dtype))

    def pattern(self, pattern: re.Pattern[str]) -> Hashable:
        return "pattern", type(pattern.pattern), pattern.pattern, pattern.flags

    def constant(self, part: object) -> Hashable:
        return Same(part)
