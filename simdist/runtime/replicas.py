"""Replicas that take steps together: their members, and how a strategy plans their collectives.

Taught in lesson 03a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from simdist.collectives.base import Schedule
from simdist.program.bound_call import BoundCall
from simdist.program.collective import Collective
from simdist.program.values import Bundle
from simdist.runtime.linked import LinkedProgram

__all__ = ["Communication", "Member", "Process", "ReplicaGroup", "CollectivePlan"]


class Process(Protocol):
    """One incarnation of a task, as another task that depends on it remembers it."""

    @property
    def alive(self) -> bool: ...
    @property
    def incarnation(self) -> int: ...


@dataclass(frozen=True)
class Member:
    """A replica as the others know it: its rank, its task, the device that it computes on, and the incarnation that it joined with.

    A task that was started again is another one for the group: it has lost what the member had.
    """

    rank: int
    task: str
    device: str
    process: Process

    @property
    def alive(self) -> bool:
        """Whether the incarnation that joined is still up."""
        return self.process.alive


@dataclass(frozen=True)
class CollectivePlan:
    """How some replicas carry out a collective: devices, algorithm and options.

    Args:
        algorithm: its name, for people.
        schedule: whose order of additions the numbers have.
        travel: the schedule of the bytes; as a rule the same.
        devices: the devices of its ranks: those of the replicas, and perhaps one more that only passes on.
        equivalent_devices: other places, for which it takes equally long; empty where there are none.
    """

    algorithm: str
    schedule: Schedule
    travel: Schedule
    devices: tuple[str, ...]
    equivalent_devices: tuple[str, ...] = ()


class Communication(Protocol):
    """The strategy's half of collectives: which algorithm they take.

    Attributes:
        timeout_s: how long the first to come waits for the last; None for ever.
        backup_workers: how many of the replicas a step does not wait for.
        local_updates: whether each replica takes steps of its own, so that the others cannot go on without what one alone has.
    """

    timeout_s: float | None
    backup_workers: int
    local_updates: bool

    def plan(self, collective: Collective, devices: tuple[str, ...]) -> CollectivePlan:
        """The collective plan of the replicas with these local ranks."""
        ...


class ReplicaGroup(Protocol):
    """Replicas that take steps together, those of one driver or of several launched mains."""

    def believes_in(self, member: Member) -> bool:
        """Whether the driver believes that a member is alive: it has not died, and was not silent for too long."""
        ...

    def run(
        self, members: Sequence[Member], local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]
    ) -> Sequence[Bundle | None]:
        """Take one step; block until it is over for all replicas that are driven here. Its changes become valid at the end.

        Args:
            members: all replicas, by rank.
            local: those that this driver drives.
            linked, calls: of each of these its program and its arguments.

        Returns:
            The result of each local replica; None for one that was dropped.

        Raises:
            UnavailableError: the task of a replica has died; the step has left no mark.
        """
        ...
