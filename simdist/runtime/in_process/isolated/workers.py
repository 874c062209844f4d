"""Workers with memories of their own: their steps travel as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from simdist.errors import FailedPreconditionError
from simdist.program.function import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.in_process.computing import arrays_of
from simdist.runtime.in_process.isolated.arrays import bundle_of
from simdist.runtime.in_process.isolated.chief import RemoteChief
from simdist.runtime.in_process.isolated.post import batches_of, groups_of
from simdist.runtime.in_process.isolated.worker_replicas import remote_step_of_replicas
from simdist.runtime.in_process.programs import TaskHere, Updates
from simdist.runtime.in_process.workers import Workers
from simdist.runtime.linked import ApplyAll
from simdist.runtime.wire.messages import BeginStep, StepEnded
from simdist.runtime.work import LinkedStep, PlainFunction, StepCall, TakeStep
from simdist.runtime.worker_replicas import LinkedReplicas, LocalReplicas, ReplicaCalls

__all__ = ["RemoteWorkers"]


class RemoteWorkers(Workers):
    """Steps are bound and linked by the driver, in the context of the worker; the worker gets the program, arrays and batches.

    Args:
        engine: theirs.
        tasks, strategy: as of `Workers`.
        local: the replicas of each; None: it is one.
    """

    def __init__(self, engine: RemoteChief, tasks: Sequence[TaskHere], strategy: Any, local: LocalReplicas | None = None) -> None:
        super().__init__(engine, tasks, strategy)
        self.engine = engine
        self.local = local

    def take(self, task: TaskHere, linked: LinkedStep, call: StepCall, updates: Updates) -> tuple[Bundle, ...]:
        if isinstance(linked, LinkedReplicas):
            assert isinstance(call, ReplicaCalls) and self.local is not None
            return remote_step_of_replicas(self.engine, task, self.local, linked, call, updates)
        assert isinstance(call, BoundCall)
        holders = self.engine.versions.holders_of(groups_of(linked))
        batches = batches_of(linked, call, task.name)
        program = self.engine.post.program(task.name, linked, holders)
        changed = [group for group, _ in holders if updates.has_changed(group)]
        versions = zip(changed, map(bundle_of, self.engine.versions.read(changed)), strict=True)
        seen = tuple([(group, arrays_of(updates.seen(group, present))) for group, present in versions])
        begin = BeginStep(0, None, True, task.name, program, task.steps, task.draws, call.arrays, batches, holders, seen)
        reply = self.engine.post.ask(task.name, begin, StepEnded)
        task.steps += 1
        task.draws += linked.draws
        for _, operation, part, operands in reply.kept:
            op = linked.operations[operation]
            assert isinstance(op, ApplyAll)
            updates.add(op.parts[part].group, (op.parts[part], bundle_of(operands)))
        return (bundle_of(reply.result),)

    def do(self, task: TaskHere, function: PlainFunction, take: TakeStep) -> NoReturn:
        raise FailedPreconditionError(
            f"A plain Python function cannot be sent to {task.name}: it is code of this process, and only data travels when isolated=True. "
            "Make it a step (@sd.function), call it here, or leave isolated=True out."
        )
