"""Replicas with memories of their own: the driver begins each one's step, and carries the operands of their collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from simdist.interrupts import delayed_interrupts
from simdist.program.collective import Collective
from simdist.program.function import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.in_process.computing import arrays_of
from simdist.runtime.in_process.isolated.arrays import bundle_of
from simdist.runtime.in_process.isolated.chief import RemoteChief
from simdist.runtime.in_process.isolated.post import Post, batches_of, groups_of
from simdist.runtime.in_process.programs import TaskHere
from simdist.runtime.in_process.replicas import Replicas, TakingPart
from simdist.runtime.linked import LinkedCollective, LinkedProgram
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.wire.messages import BeginStep, Confirmed, EndStep, InCollective, ResumeStep, StepEnded

__all__ = ["RemoteReplicas"]

_numbers = count(1)  # of steps, never given twice


class RemoteStep:
    """The step of one replica, as `TakingPart`.

    Args:
        post: reaches its task.
        member: its rank and device.
        linked: its program.
        begin: how it begins.
    """

    def __init__(self, post: Post, member: Member, linked: LinkedProgram, begin: BeginStep) -> None:
        self.member = member
        self.came: tuple[Collective, Bundle] | None = None
        self.over = False
        self.result = Bundle((), ())
        self._post = post
        self._linked = linked
        self._begin: BeginStep | None = begin
        self._step = begin.step

    def go(self, result: Bundle | None = None) -> None:
        if self.over:
            return
        request = self._begin or ResumeStep(self._step, self.member.rank, arrays_of(result or Bundle((), ())))
        self._begin, self.came = None, None
        reply = self._post.ask(self.member.task, request, StepEnded, InCollective)
        if isinstance(reply, StepEnded):
            self.over, self.result = True, bundle_of(reply.result)
            return
        op = self._linked.operations[reply.operation]
        self.came = (op.collective, bundle_of(reply.arrays)) if isinstance(op, LinkedCollective) else None


class RemoteReplicas(Replicas):
    """The replicas of one driver.

    Args:
        engine: theirs.
        communication, tasks: as of `Replicas`.
    """

    def __init__(self, engine: RemoteChief, communication: Communication, tasks: Callable[[str], TaskHere]) -> None:
        super().__init__(engine, communication, tasks)
        self.engine = engine

    @contextmanager
    def step(
        self, local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall], is_alone: bool
    ) -> Iterator[Sequence[TakingPart]]:
        number, counts = next(_numbers), False
        try:
            yield [self._begun(number, *of_one, is_alone) for of_one in zip(local, linked, calls, strict=True)]
            counts = True
        finally:
            with delayed_interrupts():  # so that it counts at all tasks or at none
                for task in dict.fromkeys(member.task for member in local):
                    self._end(task, number, counts)

    def _end(self, task: str, number: int, counts: bool) -> None:
        """A step is over for all of them."""
        self.engine.post.ask(task, EndStep(number, counts), Confirmed)

    def _begun(self, number: int, member: Member, linked: LinkedProgram, call: BoundCall, is_alone: bool) -> RemoteStep:
        holders = self.engine.versions.holders_of(groups_of(linked))
        program = self.engine.post.program(member.task, linked, holders)
        task, batches = self.tasks(member.task), batches_of(linked, call, member.task)
        begin = BeginStep(number, member.rank, is_alone, member.device, program, task.steps, task.draws, call.arrays, batches, holders)
        return RemoteStep(self.engine.post, member, linked, begin)
