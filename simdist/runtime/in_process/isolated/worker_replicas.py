"""Replicas of one worker, which has a memory of its own: collectives go by the driver, all else is joined on their host."""

from __future__ import annotations

from collections.abc import Sequence

from simdist.program.function import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.base import OperationResult
from simdist.runtime.counted_reads import CountedReads, dense_read
from simdist.runtime.in_process.computing import arrays_of
from simdist.runtime.in_process.isolated.arrays import bundle_of
from simdist.runtime.in_process.isolated.chief import RemoteChief
from simdist.runtime.in_process.isolated.post import batches_of, groups_of
from simdist.runtime.in_process.isolated.replicas import RemoteReplicas, RemoteStep
from simdist.runtime.in_process.programs import TaskHere, Updates
from simdist.runtime.in_process.replicas import TakingPart
from simdist.runtime.linked import ApplyAll, LinkedProgram
from simdist.runtime.replicas import Member
from simdist.runtime.wire.messages import BeginStep, Confirmed, EndStep, JoinReplicas, StepEnded
from simdist.runtime.worker_replicas import LinkedReplicas, LocalReplicas, ReplicaCalls

__all__ = ["remote_step_of_replicas"]


class RemoteWorkerReplicas(RemoteReplicas):
    """The replicas of one worker, in one step.

    Args:
        engine: theirs.
        local: their devices.
        task: the worker.
        linked: their programs.
        updates: gets the updates of the chief's variables.
    """

    def __init__(self, engine: RemoteChief, local: LocalReplicas, task: TaskHere, linked: LinkedReplicas, updates: Updates) -> None:
        super().__init__(engine, local.communication, lambda _: task)
        self.task = task
        self.linked = linked
        self.updates = updates
        self._number = 0

    def _begun(self, number: int, member: Member, linked: LinkedProgram, call: BoundCall, is_alone: bool) -> RemoteStep:
        self._number, engine, task = number, self.engine, self.task
        holders = engine.versions.holders_of(groups_of(linked))
        changed = [group for group in groups_of_all(self.linked) if self.updates.has_changed(group)]
        versions = zip(changed, map(bundle_of, engine.versions.read(changed)), strict=True)
        seen = tuple([(group, arrays_of(self.updates.seen(group, present))) for group, present in versions])
        counted = counted_positions(linked, self.linked.counted_reads)
        program, batches = engine.post.program(task.name, linked, holders), batches_of(linked, call, task.name)
        device, drawn = member.device, (task.steps, task.draws)
        begin = BeginStep(number, member.rank, False, device, program, *drawn, call.arrays, batches, holders, seen, counted)
        return RemoteStep(engine.post, member, linked, begin)

    def met(self, members: Sequence[Member], replicas: Sequence[TakingPart], number: int) -> Sequence[OperationResult]:
        if any(replica.came is not None for replica in replicas):
            return super().met(members, replicas, number)
        self.engine.post.ask(self.task.name, JoinReplicas(self._number), Confirmed)
        return [None] * len(replicas)

    def _end(self, task: str, number: int, counts: bool) -> None:
        reply = self.engine.post.ask(task, EndStep(number, counts), StepEnded, Confirmed)
        for rank, operation, part, operands in reply.kept if isinstance(reply, StepEnded) else ():
            op = self.linked.programs[rank].operations[operation]
            assert isinstance(op, ApplyAll)
            self.updates.add(op.parts[part].group, (op.parts[part], bundle_of(operands)))


def counted_positions(linked: LinkedProgram, counted: CountedReads) -> tuple[int, ...]:
    """Which operations of a program are counted reads."""
    reads = enumerate(map(dense_read, linked.operations))
    return tuple([number for number, read in reads if read is not None and read in counted])


def groups_of_all(linked: LinkedReplicas) -> list[int]:
    """The groups that the replicas read or change."""
    return list(dict.fromkeys(group for program in linked.programs for group in groups_of(program)))


def remote_step_of_replicas(
    engine: RemoteChief, task: TaskHere, local: LocalReplicas, linked: LinkedReplicas, call: ReplicaCalls, updates: Updates
) -> tuple[Bundle, ...]:
    """Let the replicas of a worker take a step; the result of each. What it changes of the chief's variables is added to `updates`."""
    members = [Member(rank, task.name, device, task) for rank, device in enumerate(local.on(task.name))]
    replicas = RemoteWorkerReplicas(engine, local, task, linked, updates)
    return tuple(replicas.run(members, members, linked.programs, call.calls))
