"""What parameter servers do for the workers of one coordinator: when updates count, and what survives a crash.

It crosses the wall as data: the strategy says what it needs (`Serving`), the coordinator gives each attempt a `Ticket`, and says which
attempts make up a `Round`.

Taught in lessons 05 and 07.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ASYNCHRONOUS", "NOT_IN_ROUNDS", "Recovery", "Round", "Serving", "Ticket"]

Recovery = Literal["raise", "checkpoint", "replica"]


@dataclass(frozen=True)
class Serving:
    """What the servers promise to the workers of one coordinator.

    Attributes:
        servers: the tasks that keep the variables.
        in_rounds: whether updates count with their round, all at once, or each when it arrives.
        recovery: what becomes of variables when their server dies; "raise": they are lost.
        exactly_once: whether the servers know an update of a closure that is run again.
    """

    servers: tuple[str, ...] = ()
    in_rounds: bool = False
    recovery: Recovery = "raise"
    exactly_once: bool = False

    @property
    def remembers(self) -> bool:
        """Whether servers ask which attempt an update belongs to."""
        return self.in_rounds or self.exactly_once


ASYNCHRONOUS = Serving()
"""Each update counts when it arrives; what a server held is lost with it."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the messages of one attempt to run a closure carry.

    Attributes:
        number: of the attempt, among all of its coordinator; -1 where nobody asks.
        clock: the round that its updates count for.
        needs: how many rounds a server must have applied before it answers a read.
        oldest: the lowest number of a closure that has not ended: what servers remember of those before it can be forgotten.
    """

    number: int = -1
    clock: int = 0
    needs: int = 0
    oldest: int = 0


NOT_IN_ROUNDS = Ticket()
"""The ticket of closures that servers do not ask about."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round that is complete.

    Attributes:
        clock: which one, from 0.
        tickets: the numbers of the attempts whose updates count, in the order in which they are added up.
        closures: those that these attempts have completed.
    """

    clock: int
    tickets: tuple[int, ...]
    closures: tuple[int, ...]
