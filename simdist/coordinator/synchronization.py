"""How the workers of a coordinator wait for each other: policies that say who may begin, what it reads, and when its update counts.

The closure queue asks a policy and reports to it; like the queue it knows no clock, no network and no arrays. Which of the idle workers may
begin is its own decision, from one closure to the next. Which version a step reads and when its update counts are decided where the
variables live; a policy says what it needs of the servers (`reads`, `counts`). Servers proceed in rounds for `BoundedStaleness`
(`simdist.coordinator.bounded`) only; the coordinator refuses another policy that asks for rounds.

Sources: Recht et al., Hogwild!, 2011; Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013;
Chen et al., Revisiting Distributed Synchronous SGD, 2016.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

__all__ = ["Asynchronous", "Reads", "Synchronization", "UpdatesCount"]


class Reads(StrEnum):
    """Which version of the variables a step reads: the present one whenever it asks, or that with which its round began."""

    PRESENT = "present"
    ROUND = "round"


class UpdatesCount(StrEnum):
    """When an update changes a variable: as soon as it comes, or together with the others of its round, averaged."""

    ON_ARRIVAL = "on_arrival"
    WITH_ROUND = "with_round"


class Synchronization(Protocol):
    """How workers wait for each other. A closure of several steps counts as one.

    Whenever nobody is at work, at least one of the workers that have joined must be allowed to begin: otherwise nothing goes on.

    Attributes:
        reads: which version a step reads.
        counts: when its update counts.
    """

    @property
    def reads(self) -> Reads: ...
    @property
    def counts(self) -> UpdatesCount: ...

    def joined(self, worker: str) -> None:
        """A worker is ready for work, for the first time or again."""
        ...

    def left(self, worker: str) -> None:
        """A worker is gone; what it had begun is given to another."""
        ...

    def choose(self, idle: Iterable[str]) -> str | None:
        """The idle worker that gets the next closure, None if none may begin; those that are idle for longest come first. Asked whenever
        something has happened."""
        ...

    def began(self, worker: str) -> None:
        """A worker was given a closure."""
        ...

    def ended(self, worker: str, has_completed: bool) -> None:
        """A worker is rid of its closure: it has completed it, or the closure failed, or a message of it was lost."""
        ...


class Asynchronous:
    """No worker waits for another: each reads what is there, and its update counts as soon as it comes.

    Example:
        >>> Asynchronous().may_begin("worker:0")
        True
    """

    reads = Reads.PRESENT
    counts = UpdatesCount.ON_ARRIVAL

    def joined(self, worker: str) -> None:
        """Nothing follows from it."""

    def left(self, worker: str) -> None:
        """Nothing follows from it."""

    def may_begin(self, worker: str) -> bool:
        """Whether an idle worker may begin a closure now: always."""
        return True

    def choose(self, idle: Iterable[str]) -> str | None:
        """The one that has been idle for longest, of those that may begin."""
        for worker in idle:
            if self.may_begin(worker):
                return worker
        return None

    def began(self, worker: str) -> None:
        """Nothing follows from it."""

    def ended(self, worker: str, has_completed: bool) -> None:
        """Nothing follows from it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
