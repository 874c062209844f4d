"""The steps of a closure on a worker with several devices: its replicas take each of them together.

They run by callbacks, as a step of one replica does, and die with their task. A step is over when all have ended it; if one of them fails,
the others end with it, and so does the closure.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.errors import AbortedError
from simdist.program.values import Bundle
from simdist.runtime.interpreter import OVER, Step
from simdist.runtime.replicas import Member
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.served import Errand
from simdist.runtime.simulated.served_once import ServedOnce
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.worker_replica import WorkerReplica
from simdist.runtime.simulated.world import World
from simdist.runtime.worker_replicas import LinkedReplicas, LocalReplicas, ReplicaCalls

__all__ = ["ClosureReplicas"]


class ClosureReplicas:
    """Steps of the replicas of a worker, one after the other; to its closure what a `Step` is.

    Args:
        world, task: the worker.
        local: its replicas.
        plans: of their collectives.
        linked, priced, call: the program, its prices and the arguments of each replica.
        errand: the closure.
        ended: is called at the end of each step; True: take another one.

    Attributes:
        results: the bundles of the step that has ended last, by rank.
        error: what the step failed with.
        over: whether it does nothing any more.
    """

    def __init__(
        self,
        world: World,
        task: Task,
        local: LocalReplicas,
        plans: CollectivePlans,
        linked: LinkedReplicas,
        priced: list[PricedProgram],
        call: ReplicaCalls,
        errand: Errand,
        ended: Callable[[ClosureReplicas], bool],
    ) -> None:
        self.world = world
        self.task = task
        self.local = local
        self.plans = plans
        self.linked = linked
        self.priced = priced
        self.call = call
        self.errand = errand
        self.ended = ended
        self.members = [Member(rank, task.name, device, task.process) for rank, device in enumerate(local.on(task.name))]
        self.processors = [task.processors[member.device] for member in self.members]
        self.results: tuple[Bundle, ...] = ()
        self.error: BaseException | None = None
        self.over = False
        self.steps: list[Step] = []
        self.runtimes: list[WorkerReplica] = []
        self._is_beginning = self._goes_on = False

    def go(self) -> None:
        """Take steps, until `ended` wants no more."""
        self._is_beginning = self._goes_on = True
        while self._goes_on:
            self._goes_on = False
            self._begin()
        self._is_beginning = False

    def _begin(self) -> None:
        """Begin one step on all devices."""
        world = self.world
        self.group = CollectiveGroup(world, self.members, self.local.communication, self.plans)
        self.lanes = world.ledger.lanes(len(self.members))
        linked = self.linked
        self.once = ServedOnce(world, self.task, self.priced[0], linked.joint_reads, linked.counted_reads, self.errand, self._failed)
        self.runtimes, self.steps, self._left = [], [], len(self.members)
        for lane, (member, priced) in enumerate(zip(self.members, self.priced, strict=True)):
            WorkerReplica(world, member, priced, self.group, self.lanes, lane, self.once, self.runtimes)
        for processor in self.processors:
            processor.last = self.task.processor.last
        for runtime, program, call in zip(self.runtimes, linked.programs, self.call.calls, strict=True):
            self.steps.append(Step(program, runtime, call.iterators, call.arrays, self._ended))
        for step in list(self.steps):
            step.go()

    def _ended(self, step: Step) -> None:
        """The step of one replica has ended."""
        if self.over:
            return
        if step.error is not None:
            self._failed(step.error)
            return
        self._left -= 1
        if self._left == 0:
            self._complete()

    def _complete(self) -> None:
        """All have ended the step."""
        self._close()
        for runtime in self.runtimes:
            runtime.keep_counted()
        self.task.processor.last = max(processor.last for processor in self.processors)
        self.runtimes[0].count_step()
        if self.over:
            return  # a fault that waits for this step has ended the task
        self.results = tuple([step.result for step in self.steps])
        self._take_apart()
        if not self.ended(self):
            self.over = True
            self.ended = _wants_no_more
        elif self._is_beginning:
            self._goes_on = True
        else:
            self.go()

    def _take_apart(self) -> None:
        """The step has succeeded: its parts, which know each other, shall not wait for Python's collector."""
        self.once.stop()
        for runtime in self.runtimes:
            runtime.step = OVER
        self.runtimes.clear()
        self.steps = []

    def _failed(self, error: BaseException) -> None:
        if not self.over:
            self.stop()
            self.error = error
            self.ended(self)

    def stop(self) -> None:
        """Stop all replicas without calling `ended`."""
        self.over = True
        for step, runtime in zip(self.steps, self.runtimes, strict=True):
            step.stop()
            runtime.drop_call()
        self.once.stop()
        # What the death of its own task does to the group, the chief learns as of any worker: from its connections.
        self.group.break_up(AbortedError(f"The step of {self.task.name} was stopped."))
        self._close()

    def _close(self) -> None:
        self.lanes.close()
        self.group.close()

    def waits_for(self) -> str | Callable[[], str]:
        """What the first replica that has not ended waits for."""
        waiting = [runtime.waits_for for step, runtime in zip(self.steps, self.runtimes, strict=True) if not step.over]
        return waiting[0] if waiting else ""


def _wants_no_more(_: ClosureReplicas) -> bool:
    """Nothing is called after the last step, and nothing is kept by it."""
    return False
