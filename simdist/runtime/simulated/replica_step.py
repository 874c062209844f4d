"""One step of several replicas: each runs the program on its own device, and they meet in exchanges.

Each replica runs as a fiber of its task, side by side, so that it dies with its task; only a single one whose task is the
caller's own runs in the caller's place. The step is over when all have ended. If one of them fails, the others end with it, and
nothing that the step has changed counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.errors import UnavailableError
from simdist.program.function import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.interpreter import run_step
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.simulated.engine import SimulatedRuntime
from simdist.runtime.simulated.members import Communication, Member
from simdist.runtime.simulated.rendezvous import Rendezvous
from simdist.runtime.simulated.replica_runtime import SimulatedReplica, StepVersions
from simdist.runtime.simulated.task import Task
from simdist.simulation.kernel import Fiber, current_fiber

__all__ = ["ReplicaStep"]


class ReplicaStep:
    """One step.

    Args:
        runtime: the cluster's.
        members: all replicas, by rank.
        local: those that this program drives.
        communication: how they talk to each other.
        rendezvous: where they meet, if it outlives the step; None makes one for the step.
    """

    def __init__(
        self,
        runtime: SimulatedRuntime,
        members: Sequence[Member],
        local: Sequence[Member],
        communication: Communication,
        rendezvous: Rendezvous | None = None,
    ) -> None:
        self.runtime = runtime
        self.clock = runtime.clock
        self.members = members
        self.local = local
        self.communication = communication
        self.own_rendezvous = rendezvous is None and len(members) > 1
        self.rendezvous = rendezvous
        self.versions = StepVersions()
        self.fibers: dict[int, Fiber] = {}
        self.late: set[int] = set()
        self.errors: list[BaseException] = []
        self.failed = self.clock.gate()

    def run(self, linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]) -> list[Bundle]:
        """The results of the replicas; for one that was dropped, those of another.

        Raises:
            UnavailableError: the task of a replica has died.
        """
        self._require_alive()
        if self.own_rendezvous:
            self.rendezvous = Rendezvous(self.runtime, self.members, self.communication, self._dropped)
        try:
            replicas = self._replicas()
            if len(replicas) == 1 and self._is_callers_own(replicas[0].task):
                results = [run_step(linked[0], replicas[0], calls[0].iterators, calls[0].arrays)]
            else:
                results = self._side_by_side(replicas, linked, calls)
        finally:
            if self.own_rendezvous:
                assert self.rendezvous is not None
                self.rendezvous.close()
        self.versions.commit()
        return results

    def _require_alive(self) -> None:
        gone = [member for member in self.local if not member.alive]
        for member in gone:
            self.runtime.detection.notice(member.task, member.life, "no answer")
        if gone:
            names = ", ".join(dict.fromkeys(member.task.name for member in gone))
            is_down = not all(member.task.alive for member in gone)
            raise UnavailableError(
                f"{names} is down, and a step needs all replicas. Give the fault a restart_after=, and make the strategy again."
                if is_down
                else f"{names} was started again, and has lost its variables. Make the strategy and its variables again, or make the "
                "strategy with on_failure='continue'."
            )

    def _is_callers_own(self, task: Task) -> bool:
        """Whether the caller dies with this task: a main on it, or the notebook on the chief."""
        caller = current_fiber()
        return task is self.runtime.chief if caller is None else caller in task.fibers

    def _replicas(self) -> list[SimulatedReplica]:
        leading: set[str] = set()
        replicas: list[SimulatedReplica] = []
        for member in self.local:
            leads = member.task.name not in leading
            leading.add(member.task.name)
            replicas.append(SimulatedReplica(self.runtime, member, self.versions, self.rendezvous, leads))
        return replicas

    # -- side by side ---------------------------------------------------------------------------------------------

    def _side_by_side(self, replicas: list[SimulatedReplica], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]) -> list[Bundle]:
        results: list[Bundle | None] = [None] * len(replicas)

        def body(place: int) -> Callable[[], None]:
            def run() -> None:
                results[place] = run_step(linked[place], replicas[place], calls[place].iterators, calls[place].arrays)

            return run

        for place, member in enumerate(self.local):
            fiber = self.runtime.start(member.task, body(place), member.place, self.runtime.engine_context)
            self.fibers[place] = fiber
            fiber.finished.then(lambda _, place=place: self._ended(place))
        try:
            for place in range(len(replicas)):
                self._wait_for(place)
                if self.failed.is_open:
                    break
        finally:
            self._forget()
        if self.errors:
            raise self.errors[0]
        kept = next(result for result in results if result is not None)
        return [kept if result is None else result for result in results]

    def _wait_for(self, place: int) -> None:
        """Until a replica has ended, or any has failed: what the others still compute is of no use."""
        either = self.clock.gate()
        for gate in (self.fibers[place].finished, self.failed):
            gate.then(lambda _: either.open())
        self.clock.wait(either, f"the step of {self.local[place].place}")

    def _ended(self, place: int) -> None:
        """A replica has ended; where it failed, no other can go on."""
        fiber, member = self.fibers[place], self.local[place]
        if place in self.late:
            return
        if fiber.killed:
            error: BaseException = UnavailableError(
                f"{member.task.name} died during a step, which left no mark. Start again from a checkpoint, or make the "
                "strategy with on_failure='continue' to go on with the survivors."
            )
        elif fiber.error is not None:
            error = fiber.error
        else:
            return
        self.errors.append(error)
        # The others learn of a death by themselves, by their connections or a time-out.
        if fiber.killed and len(self.local) > 1:
            return
        if self.rendezvous is not None:
            self.rendezvous.break_up(error)
        self.failed.open()

    def _dropped(self, ranks: list[int]) -> None:
        """The step does not wait for these: what they were computing is given up."""
        for rank in ranks:
            place = rank - self.local[0].rank
            self.late.add(place)
            member = self.local[place]
            self.runtime.trace.instant(member.place, "drop", "gradient dropped", self.clock.now)
            member.task.processors[member.place].free_s = self.clock.now
            self.clock.kill(self.fibers[place])

    def _forget(self) -> None:
        for place, fiber in self.fibers.items():
            if not fiber.ended and not fiber.dead:
                member = self.local[place]
                member.task.processors[member.place].free_s = self.clock.now
                self.clock.kill(fiber)
            own = self.local[place].task.fibers
            if fiber in own:
                own.remove(fiber)
