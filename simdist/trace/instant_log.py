"""All instants of a log: faults, detections, retries, placements, looks.

Instants are rare beside spans, so they are kept as they are. What a program looked at (category ``observe``) is no part
of the digest: a print or a fetch that is added to a program keeps its digest.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import overload

from simdist.trace.facts import canonical_json
from simdist.trace.records import Instant

__all__ = ["OBSERVATION", "InstantLog"]

OBSERVATION = "observe"
MOST_PENDING = 1024


class InstantLog(Sequence[Instant]):
    """All instants in the order in which they were recorded.

    Attributes:
        items: the instants.
        spans_before: how many spans had been recorded before each.
    """

    def __init__(self) -> None:
        self.items: list[Instant] = []
        self.spans_before: list[int] = []
        self._hashed, self._last = 0, b""

    def add(self, instant: Instant, spans_before: int) -> None:
        """Append an instant that was recorded after so many spans."""
        self.items.append(instant)
        self.spans_before.append(spans_before)
        if len(self.items) - self._hashed >= MOST_PENDING:
            self.digest()

    def numbers(self) -> list[int]:
        """The number of each instant: its place in the order in which spans and instants were recorded."""
        return [spans + place for place, spans in enumerate(self.spans_before)]

    def number(self, index: int) -> int:
        """The number of one instant, by its index among the instants."""
        return self.spans_before[index] + index

    def count_before(self, number: int) -> int:
        """How many instants have a smaller number; no list of all numbers is built, since programs follow causes one by one."""
        return bisect_left(range(len(self.items)), number, key=self.number)

    def digest(self) -> bytes:
        """The digest of all instants but looks: a chain in which each is hashed with what came before.

        Raises:
            InvalidArgumentError: a fact has no text that is the same in every process.
        """
        for item in self.items[self._hashed :]:
            if item.category != OBSERVATION:
                text = canonical_json([item.lane, item.category, item.name, float(item.time_s).hex(), item.facts])
                self._last = hashlib.sha256(self._last + text.encode()).digest()
            self._hashed += 1
        return self._last

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> Instant: ...
    @overload
    def __getitem__(self, index: slice) -> list[Instant]: ...
    def __getitem__(self, index: int | slice) -> Instant | list[Instant]:
        return self.items[index]

    def where(self, lane: str | None = None, category: str | None = None, name: str | None = None) -> list[Instant]:
        """The instants that match every given word, in order."""
        return [
            item for item in self.items if lane in (None, item.lane) and category in (None, item.category) and name in (None, item.name)
        ]
