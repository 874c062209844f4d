"""Legs: one direction of a message, computed once for all messages that go the same way; and legs that travel together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from simdist.runtime.simulated.task import Task
from simdist.simulation.network import Course, Link, SharedLinks

__all__ = ["Content", "Leg", "Legs"]

Content: TypeAlias = Any
"""What a message is about: its sender and its receiver know."""


@dataclass(eq=False, slots=True)
class Leg:
    """One direction of a message.

    Attributes:
        source, target: the tasks.
        size_bytes: 0 for words.
        links: that the bytes travel over; none within a host.
        latency_s: until the word, or the first byte, is there.
        counted: the trace's total that counts the bytes; None where the sender counts them.
        content: what the message is about, for its sender.
        is_word: whether it is a message without bytes.
        kind: of the message, as `simdist.faults.messages` names it.
        travels: whether it has bytes that go over links.
    """

    source: Task
    target: Task
    size_bytes: float
    links: tuple[Link, ...]
    latency_s: float
    counted: tuple[str, str] | None = None
    content: Content = None
    is_word: bool = False
    kind: str = ""
    travels: bool = field(init=False)

    def sized(self, size_bytes: float) -> Leg:
        """A leg that differs from this one in its bytes."""
        leg = Leg.__new__(Leg)  # a call that moves rows makes many of them, and `__init__` takes three times as long
        leg.source, leg.target, leg.links, leg.content = self.source, self.target, self.links, self.content
        leg.latency_s, leg.counted, leg.is_word, leg.kind = self.latency_s, self.counted, self.is_word, self.kind
        leg.size_bytes, leg.travels = size_bytes, size_bytes > 0 and bool(self.links)
        return leg

    def __post_init__(self) -> None:
        self.travels = self.size_bytes > 0 and bool(self.links)


class Legs:
    """Legs with equal latencies, all with bytes or all words, that are sent together and share their events.

    Attributes:
        all: the legs.
        latency_s: of each.
        is_word: whether they are words.
        counted: totals of the trace with the bytes that they count; words count none.
        travelling: those whose bytes go over links.
        here: those of them whose bytes are there when the latency is over.
    """

    __slots__ = ("_course", "all", "counted", "here", "is_word", "latency_s", "travelling")

    def __init__(self, legs: Sequence[Leg]) -> None:
        self.all = tuple(legs)
        self.latency_s = self.all[0].latency_s
        self.is_word = self.all[0].is_word
        loaded = () if self.is_word else self.all
        self.counted = [(leg.counted, leg.size_bytes) for leg in loaded if leg.counted is not None]
        self.travelling = tuple([leg for leg in loaded if leg.travels])
        self.here = () if len(self.travelling) == len(loaded) else tuple([leg for leg in loaded if not leg.travels])
        self._course: Course | None = None

    def only(self, keeps: Callable[[Leg], bool]) -> Legs | None:
        """Those legs that are kept; None if none is."""
        kept = [leg for leg in self.all if keeps(leg)]
        return self if len(kept) == len(self.all) else Legs(kept) if kept else None

    def course(self, links: SharedLinks) -> Course | None:
        """How their bytes travel over their links, if these are idle now; None if one is not, unless it is known all the same."""
        course = self._course
        if course is None or course.epoch != links.epoch:
            for leg in self.travelling:
                for link in leg.links:
                    if link.quiet is not None or link.flows or link.books:  # as `Link.is_idle`, which takes longer
                        return None
            course = self._course = Course(self.travelling, links.epoch)
        return course
