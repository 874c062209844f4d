"""A replica group: replicas that take steps together, and their driver's beliefs about them.

Where tasks may fall silent, the driver listens for their heartbeats: a step with a task that is believed to be down fails, and leaves no
mark. A task that is heard again is a member like those that were started again: what it had of the variables is out of date.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.errors import AbortedError, DeadlineExceededError, UnavailableError
from simdist.program.bound_call import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.membership import MemberDecision
from simdist.runtime.replicas import Communication, Member, Process
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.replica_step import ReplicaStep
from simdist.runtime.simulated.task import Incarnation
from simdist.runtime.simulated.world import World
from simdist.simulation.dead_code import require_not_dead
from simdist.simulation.fiber import Fiber, current_fiber

__all__ = ["SimulatedReplicaGroup"]

PASSES_WITH_TIME = UnavailableError, AbortedError, DeadlineExceededError  # so programs repeat what has failed


class SimulatedReplicaGroup:
    """As `ReplicaGroup`.

    Args:
        world: where they are.
        communication: how they talk to each other.
        collective_group: that of their collectives, if it outlives a step; None makes one for each step.
    """

    def __init__(self, world: World, communication: Communication, collective_group: CollectiveGroup | None = None) -> None:
        self.world = world
        self.communication = communication
        self.plans = CollectivePlans() if collective_group is None else collective_group.plans
        self.collective_group = collective_group
        self.step: ReplicaStep | None = None
        self._driver: Fiber | None = None
        self._local: Sequence[Member] = ()
        self._listens_to: set[str] = set()
        self._suspected: set[Process] = set()
        self._joined: dict[tuple[str, int], Incarnation] = {}  # that replicas have joined with
        if collective_group is None:
            world.silence.expecting.append(self._expect_silence)

    def run(
        self, members: Sequence[Member], local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]
    ) -> list[Bundle | None]:
        require_not_dead()
        try:
            results = self._run(members, local, linked, calls)
        except PASSES_WITH_TIME as error:
            if self.collective_group is not None and self.collective_group.broken is not None:
                self.collective_group.known_to.update([member.task for member in local])
            self.world.failing_steps.note(error)
            raise
        self.world.ledger.begin()
        return results

    def _run(
        self, members: Sequence[Member], local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]
    ) -> list[Bundle | None]:
        priced = list(map(self.world.prices.of, linked))
        for prices, member in zip(priced, local, strict=True):
            memory = self.world.tasks[member.task].processors[member.device].memory
            prices.require_memory(memory, self.world.states.make_room)
        self._driver, self._local = current_fiber(), local
        if self.collective_group is None and self.world.silence.is_expected:
            self._listen(local)
        self._require_alive(local)
        self.step = ReplicaStep(self.world, members, local, self.communication, self.plans, self.collective_group)
        try:
            return self.step.run(linked, priced, calls)
        finally:
            self.step = None

    def believes_in(self, member: Member) -> bool:
        if member.process in self._suspected or not (member.alive or self._is_lost_unnoticed(member)):
            return False
        process = member.process
        if member.task not in self._listens_to or not isinstance(process, Incarnation):
            return True
        return (member.task, process.incarnation) in self._joined or self._has_heard_of(process, member.task)

    def _has_heard_of(self, process: Incarnation, task: str) -> bool:
        """Whether a task that was started again has registered: its message may be lost, and then nobody would miss it either."""
        belief = self.world.detection.membership.beliefs.get(task)
        return belief is not None and belief.up and belief.incarnation == process.incarnation

    def _is_lost_unnoticed(self, member: Member) -> bool:
        """Whether a member's machine is gone, and was not silent for long enough yet."""
        process = member.process
        if not isinstance(process, Incarnation) or not process.lost:
            return False
        if self.world.detection.has_noticed(member.task, process.incarnation):
            return False  # or the next process there has died aloud
        belief = self.world.detection.membership.beliefs.get(member.task)
        return belief is None or (belief.up and belief.incarnation == process.incarnation)

    def _expect_silence(self) -> None:
        """A replica may fail silently from now on, in the step that is under way too."""
        if self.step is not None:
            self._listen(self._local)

    def _listen(self, members: Sequence[Member]) -> None:
        """Listen for the heartbeats of these members' tasks, other than the driver's own: the chief, or that of a main."""
        for member in members:
            if isinstance(member.process, Incarnation):
                self._joined[member.task, member.process.incarnation] = member.process
        driver = self._driver
        own = {task.name for task in self.world.tasks.values() if task is self.world.chief or driver in task.fibers}
        new = {member.task for member in members} - self._listens_to - own
        if new:
            if not self._listens_to:
                self.world.detection.listeners.append(self._heard)
            self._listens_to |= new
            self.world.detection.watch(sorted(new))

    def _heard(self, decision: MemberDecision) -> None:
        if decision.task not in self._listens_to:
            return
        process = self._joined.get((decision.task, decision.incarnation), self.world.tasks[decision.task].process)
        if decision.incarnation != process.incarnation:
            return
        if decision.kind == "up":
            self._suspected.discard(process)
        elif process.alive or process.lost:
            self._suspected.add(process)
            if self.step is not None:
                self.step.give_up_on(decision.task, self._silent_error(decision.task))

    def _require_alive(self, local: Sequence[Member]) -> None:
        gone = [member for member in local if not self.believes_in(member)]
        if not gone:
            return
        dead = [member for member in gone if not member.alive]
        if not dead:
            raise self._silent_error(gone[0].task)
        for member in dead:
            self.world.notice(member, "no answer")
        names = ", ".join(dict.fromkeys(member.task for member in dead))
        is_down = not all(self.world.tasks[member.task].alive for member in dead)
        raise UnavailableError(
            f"{names} is down, and a step needs all replicas. Give the fault a restart_after=, and make the strategy again."
            if is_down
            else f"{names} was started again, and has lost its variables. Make the strategy and its variables again{self._or_continue('')}."
        )

    def _silent_error(self, task: str) -> UnavailableError:
        return UnavailableError(
            f"{task} is silent, and a step needs all replicas; this one has changed nothing, but the batches that it took are used up. "
            f"Give the pause or partition an until=, and go on later{self._or_continue(' to take the step again')}."
        )

    def _or_continue(self, purpose: str) -> str:
        """The other advice, where a strategy can follow it: survivors that have copies of everything can go on."""
        return "" if self.communication.local_updates else f"; or make the strategy with on_failure='continue'{purpose}"
