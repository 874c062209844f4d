"""One step of several replicas: each runs the program on its own device, and collectives join them.

The replicas run in parallel, by callbacks, and die with their tasks; a single one on the caller's task begins inside the call, without
an event of its own. The step is over when all have ended. If one of them fails, the others end with it, and the step changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.errors import UnavailableError
from simdist.program.bound_call import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.interpreter import OVER, Step
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.replicas import Communication, Member, Process
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.replica_runtime import SimulatedReplica, TimedVersions
from simdist.runtime.simulated.task import Incarnation
from simdist.runtime.simulated.world import World
from simdist.simulation.fiber import current_fiber, words

__all__ = ["ReplicaStep"]


class RunningReplica:
    """A replica in a step.

    Args:
        runtime: runs the operations of its program.
        process: the incarnation that the others know.
        linked, call: its program and its arguments.
        ended: is called when it has ended, itself or with its task.

    Attributes:
        killed: whether its task has died.
    """

    def __init__(
        self,
        runtime: SimulatedReplica,
        process: Process,
        linked: LinkedProgram,
        call: BoundCall,
        ended: Callable[[RunningReplica], None],
    ) -> None:
        self.runtime = runtime
        self.process = process
        self.step = Step(linked, runtime, call.iterators, call.arrays, self._ended)
        self.ended = ended
        self.has_died = False

    @property
    def lane(self) -> str:
        return self.runtime.device

    @property
    def waiting(self) -> object:
        return self

    @property
    def waits_for(self) -> str | Callable[[], str]:
        return self.runtime.waits_for

    @property
    def held(self) -> object:
        return self.runtime.task.held

    def start(self, _: None = None) -> None:
        """Begin the first operation; where the task is paused, when it goes on."""
        task = self.runtime.task
        if isinstance(self.process, Incarnation) and self.process.lost:
            return  # its machine is gone, and nobody says so
        if task.held is None:
            self.step.go()
        else:
            task.held.append((self._start_late, task.process))

    def _start_late(self, process: object) -> None:
        if not self.step.over and self.runtime.task.process is process:
            self.start()

    def killed(self) -> None:
        """End the replica, because its task has died."""
        if not self.step.over:
            self.stop()
            self.has_died = True
            if not self.runtime.task.process.lost:  # otherwise nobody is told
                self.ended(self)

    def stop(self) -> None:
        """Stop the replica without an error or a result."""
        self.step.stop()
        self.runtime.drop_call()

    def give_up(self) -> None:
        """Free the device: the result of its work is not needed."""
        if not self.step.over:
            self.runtime.processor.free_s = self.runtime.clock.now
            self.stop()

    def _ended(self, _: Step) -> None:
        self.ended(self)


class ReplicaStep:
    """One step of a group of replicas.

    Args:
        world: the cluster's.
        members: all replicas, by rank.
        local: those that this program drives.
        communication: how they talk to each other.
        plans: of their collectives.
        collective_group: that of their collectives, if it outlives the step; None makes one for the step.
    """

    def __init__(
        self,
        world: World,
        members: Sequence[Member],
        local: Sequence[Member],
        communication: Communication,
        plans: CollectivePlans,
        collective_group: CollectiveGroup | None = None,
    ) -> None:
        self.world = world
        self.clock = world.clock
        self.members = members
        self.local = local
        self.local_updates = communication.local_updates
        self.own_collective_group = collective_group is None and len(members) > 1
        self.collective_group = (
            CollectiveGroup(world, members, communication, plans, self._dropped) if self.own_collective_group else collective_group
        )
        self.versions = TimedVersions(world.states)
        self.lanes = world.ledger.lanes(len(local))
        self.replicas: list[RunningReplica] = []
        self.late: set[int] = set()
        self.errors: list[BaseException] = []
        self.left = 0
        self.is_in_place = False
        self.over = self.clock.gate()
        self.caller = current_fiber()
        task = world.tasks[local[0].task]
        self.program = (task if self.caller in task.fibers else world.chief).processor  # its last record is that of the caller

    def run(self, linked: Sequence[LinkedProgram], priced: Sequence[PricedProgram], calls: Sequence[BoundCall]) -> list[Bundle | None]:
        """The results of the replicas; None for one that was dropped.

        Raises:
            UnavailableError: the task of a replica has died.
        """
        try:
            self._make_replicas(linked, priced, calls)
            self.left = len(self.replicas)
            self.is_in_place = self.left == 1 and self._is_callers_own(self.local[0])
            if self.is_in_place:
                self._in_place(self.replicas[0])
            else:
                self._side_by_side()
            if self.errors:
                raise self.errors[0]
        except BaseException as error:
            for replica in self.replicas:
                replica.runtime.step_undone(error)
            raise
        finally:
            self.lanes.close()
            self._name_cause_of_next()
            if self.own_collective_group:
                assert self.collective_group is not None
                self.collective_group.close()
        self.versions.commit()
        results = [None if local_rank in self.late else replica.step.result for local_rank, replica in enumerate(self.replicas)]
        self._take_apart()
        return results

    def _name_cause_of_next(self) -> None:
        """The program goes on when the step is over: what comes next waits for the last record of the replica that ended last."""
        processors = [replica.runtime.processor for replica in self.replicas]
        last = max((processor.last for rank, processor in enumerate(processors) if rank not in self.late), default=self.program.last)
        for processor in (*processors, self.program):
            processor.last = last

    def _take_apart(self) -> None:
        """The step has succeeded: its parts, which know each other, shall not wait for Python's collector."""
        for replica in self.replicas:
            replica.runtime.step = OVER
        self.replicas = []
        if self.own_collective_group:
            self.collective_group = None

    def _make_replicas(self, linked: Sequence[LinkedProgram], priced: Sequence[PricedProgram], calls: Sequence[BoundCall]) -> None:
        leading: set[str] = set()
        for member, program, prices, call in zip(self.local, linked, priced, calls, strict=True):
            leads = member.task not in leading
            leading.add(member.task)
            lane = len(self.replicas)
            where = self.world, member, prices, self.versions, self.collective_group
            runtime = SimulatedReplica(*where, leads, self.lanes, lane, program.program.counts)
            runtime.processor.last = max(runtime.processor.last, self.program.last)
            self.replicas.append(RunningReplica(runtime, member.process, program, call, self._ended))

    def _is_callers_own(self, member: Member) -> bool:
        """Whether the caller dies with this task: a main on it, or the notebook on the chief."""
        task = self.world.tasks[member.task]
        return task is self.world.chief if self.caller is None else self.caller in task.fibers

    def _in_place(self, replica: RunningReplica) -> None:
        try:
            replica.start()
            if not replica.step.over:
                self.clock.wait(self.over, lambda: words(replica.waits_for))
        finally:
            replica.stop()

    def give_up_on(self, task: str, error: UnavailableError) -> None:
        """End the step with an error, because a task is believed to be down."""
        if self.over.is_open or not any(member.task == task for member in self.local):
            return
        self.errors.append(error)
        if self.collective_group is not None:
            self.collective_group.break_up(error)
        self._open()

    # -- side by side ---------------------------------------------------------------------------------------------

    def _side_by_side(self) -> None:
        for replica in self.replicas:
            self.clock.after(0.0, replica.start)
            replica.runtime.task.running[replica] = None
            self.clock.steps[replica] = None
        try:
            self.clock.wait(self.over, self._first_running)
        finally:
            for replica in self.replicas:
                replica.give_up()
                self._forget(replica)

    def _first_running(self) -> str:
        lanes = [replica.lane for replica in self.replicas if not replica.step.over]
        return f"the step of {lanes[0] if lanes else 'its replicas'}"

    def _forget(self, replica: RunningReplica) -> None:
        replica.runtime.task.running.pop(replica, None)
        self.clock.steps.pop(replica, None)

    def _ended(self, replica: RunningReplica) -> None:
        """A replica has ended; if it failed, the step fails."""
        self._forget(replica)
        self.left -= 1
        error = replica.step.error
        if replica.has_died:
            error = self._error_of_death(replica.runtime.task.name)
        if error is not None:
            self.errors.append(error)
            self._failed(replica, error)
        if self.left == 0:
            self._open()

    def _error_of_death(self, task: str) -> UnavailableError:
        if any(member.alive for member in self.members):
            otherwise = "" if self.local_updates else ", or make the strategy with on_failure='continue' to go on with the survivors"
            return UnavailableError(f"{task} died during a step, which left no mark. Start again from a checkpoint{otherwise}.")
        # whose death came before does not matter any more
        self.errors[:] = [error for error in self.errors if not isinstance(error, UnavailableError)]
        return UnavailableError(
            f"{task} was the last replica, and died during a step: no copy of the variables is left. Start again from a checkpoint."
        )

    def _failed(self, replica: RunningReplica, error: BaseException) -> None:
        if replica.has_died and len(self.local) > 1:
            return  # the others learn of a death by themselves, by their connections or a time-out
        if self.collective_group is not None and not self.is_in_place:
            self.collective_group.break_up(error)
        self._open()

    def _open(self) -> None:
        """Let the caller go on; a main of several replicas after the other events of this moment."""
        if self.caller is None or len(self.replicas) == 1:
            self.over.open()
        else:
            self.clock.after(0.0, self.over.open)

    def _dropped(self, ranks: list[int]) -> None:
        """Continue without these replicas: their work is given up."""
        for rank in ranks:
            local_rank = rank - self.local[0].rank
            self.late.add(local_rank)
            self.world.trace.instant(self.local[local_rank].device, "drop", "gradient dropped", self.clock.now)
            self.replicas[local_rank].give_up()
            self._forget(self.replicas[local_rank])
            self.left -= 1
        if self.left == 0:
            self._open()
