"""Who takes part in an exchange between replicas, and how they carry it out: what a strategy tells the runtime.

Taught in lesson 03.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from simdist.collectives.base import Schedule
from simdist.program.exchange import Exchange
from simdist.runtime.combining import Combiner
from simdist.runtime.simulated.task import Life, Task
from simdist.runtime.simulated.transfers import Wiring

__all__ = ["NETWORK", "Communication", "Member", "Way"]

NETWORK = "/network"
"""Ends the lane that shows what a device exchanges while it computes."""


@dataclass(frozen=True)
class Member:
    """A replica as the others know it: its rank, its task, the device that it computes on, and the life that it joined with.

    A task that was started again is another one for the group: it has lost what the member had.
    """

    rank: int
    task: Task
    place: str
    life: Life

    @property
    def alive(self) -> bool:
        """Whether the incarnation that joined is still up."""
        return self.life.alive


@dataclass(frozen=True)
class Way:
    """How some replicas carry out an exchange.

    Args:
        algorithm: its name, for people.
        schedule: whose order of additions the numbers have.
        travel: the schedule of the bytes; as a rule the same.
        places: the devices of its ranks: those of the replicas, and perhaps one more that only passes on.
        alike: other places, for which it takes equally long; empty where there are none.
    """

    algorithm: str
    schedule: Schedule
    travel: Schedule
    places: tuple[str, ...]
    alike: tuple[str, ...] = ()


class Communication(Protocol):
    """What a strategy says about exchanges.

    Attributes:
        timeout_s: how long the first to come waits for the last; None for ever.
        spare: how many of the replicas a step does not wait for.
        wired: who sends what where, for exchanges that have been seen.
        rehearsed: how long they take where nobody is in the way.
        combiner: makes the numbers.
    """

    timeout_s: float | None
    spare: int
    wired: dict[Any, Wiring]
    rehearsed: dict[Any, tuple[list[float], list[float]]]
    combiner: Combiner

    def way(self, exchange: Exchange, places: tuple[str, ...]) -> Way:
        """How the replicas at these places do it."""
        ...
