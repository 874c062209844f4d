"""Replicas that take steps together, as their driver knows them."""

from __future__ import annotations

from collections.abc import Sequence

from simdist.errors import UnavailableError
from simdist.program.function import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.simulated.exchanging import CollectivePlans
from simdist.runtime.simulated.rendezvous import Rendezvous
from simdist.runtime.simulated.replica_step import ReplicaStep
from simdist.runtime.simulated.world import World

__all__ = ["SimulatedReplicaGroup"]


class SimulatedReplicaGroup:
    """As `ReplicaGroup`.

    Args:
        world: where they are.
        communication: how they talk to each other.
        rendezvous: where they meet, if it outlives a step; None makes one for each step.
    """

    def __init__(self, world: World, communication: Communication, rendezvous: Rendezvous | None = None) -> None:
        self.world = world
        self.communication = communication
        self.plans = CollectivePlans() if rendezvous is None else rendezvous.plans
        self.rendezvous = rendezvous

    def run(
        self, members: Sequence[Member], local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]
    ) -> list[Bundle]:
        for program, member in zip(linked, local, strict=True):
            self.world.prices.of(program).require_memory(self.world.processor(member.place).memory)
        self._require_alive(local)
        return ReplicaStep(self.world, members, local, self.communication, self.plans, self.rendezvous).run(linked, calls)

    def _require_alive(self, local: Sequence[Member]) -> None:
        gone = [member for member in local if not member.alive]
        if not gone:
            return
        for member in gone:
            self.world.notice(member, "no answer")
        names = ", ".join(dict.fromkeys(member.task for member in gone))
        is_down = not all(self.world.tasks[member.task].alive for member in gone)
        raise UnavailableError(
            f"{names} is down, and a step needs all replicas. Give the fault a restart_after=, and make the strategy again."
            if is_down
            else f"{names} was started again, and has lost its variables. Make the strategy and its variables again, or make the "
            "strategy with on_failure='continue'."
        )
