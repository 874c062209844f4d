"""Replicas of one worker without a clock: an update is made once, when all have come to it, so all read the same before and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from simdist.program.bound_call import BoundCall
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, Later, OperationResult
from simdist.runtime.counted_reads import CountedReads
from simdist.runtime.in_process.programs import OneTask, Shared, TaskHere, Updates
from simdist.runtime.in_process.replicas import Driver, OneReplica, Replicas, StepHere, TakingPart
from simdist.runtime.in_process.row_reading import flat
from simdist.runtime.linked import Apply, ApplyAll, LinkedProgram, ReadGroups, ReadWithRows
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.step_versions import StepVersions
from simdist.runtime.worker_replicas import LinkedReplicas, LocalReplicas, ReplicaCalls

__all__ = ["InProcess", "WorkerReplicas", "step_of_replicas"]


class InProcess(Driver, Shared, Protocol):
    """An engine whose tasks share its memory."""


class OneWorkerReplica(OneReplica):
    """The task of one replica of a worker, and its step.

    Args:
        common, task, member: as of `OneReplica`.
        kept: gets the updates of the chief's variables.
        counted_reads: the reads to which all replicas come.

    Attributes:
        sends: the update that it has come to, and its operands; None while it goes on.
        counted: what it has added for itself to sums over the replicas, and has not kept yet.
        asks: the read of rows that it has come to, and which; None while it goes on.
        reads: the read of what all have counted that it has come to; None while it goes on.
    """

    def __init__(self, common: InProcess, task: TaskHere, member: Member, kept: Updates, counted_reads: CountedReads) -> None:
        super().__init__(common, task, member, StepVersions(common.versions), False)
        self.kept = kept
        self.counted_reads = counted_reads
        self.sends: tuple[ApplyAll, Sequence[Bundle | RowOperands]] | None = None
        self.counted: list[tuple[Apply, Bundle]] = []
        self.asks: tuple[ReadWithRows, Sequence[RowNumbers]] | None = None
        self.reads: ReadGroups | None = None

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        if op not in self.counted_reads:
            return self.present(op)
        self.reads = op
        return PENDING

    def groups(self) -> Sequence[Bundle]:
        """The groups that it has asked for, now that all have come."""
        assert self.reads is not None
        op, self.reads = self.reads, None
        return self.present(op)

    def present(self, op: ReadGroups) -> Sequence[Bundle]:
        return OneTask.present(self, op)

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        self.asks = op, numbers
        return PENDING

    def rows(self) -> OperationResult:
        """The rows that it has asked for, now that all have come."""
        assert self.asks is not None
        (op, numbers), self.asks = self.asks, None
        return OneTask.read_rows(self, op, numbers)

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        if op.of_each:
            self.counted += list(zip(op.parts, map(flat, operands), strict=True))
            return None
        self.sends = op, operands
        return PENDING

    def send(self) -> None:
        """Make the update to which all have come."""
        assert self.sends is not None
        OneTask.update(self, *self.sends)

    def keep_counted(self) -> None:
        """Keep what this replica has counted."""
        for part, given in self.counted:
            self.kept.add(part.group, (part, given))
        self.counted = []


class WorkerReplicas(Replicas):
    """The replicas of one worker, in one step.

    Args:
        common: what all tasks share.
        communication, tasks: as of `Replicas`.
        kept: gets the updates of the chief's variables.
        counted_reads: the reads to which all replicas come.
    """

    def __init__(
        self,
        common: InProcess,
        communication: Communication,
        tasks: Callable[[str], TaskHere],
        kept: Updates,
        counted_reads: CountedReads,
    ) -> None:
        super().__init__(common, communication, tasks)
        self.common = common
        self.kept = kept
        self.counted_reads = counted_reads
        self._replicas: list[OneWorkerReplica] = []

    @contextmanager
    def step(
        self, local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall], is_alone: bool
    ) -> Iterator[Sequence[TakingPart]]:
        self._replicas = [OneWorkerReplica(self.common, self.tasks(member.task), member, self.kept, self.counted_reads) for member in local]
        yield [StepHere(*of_one) for of_one in zip(self._replicas, linked, calls, strict=True)]
        self._keep_counted()

    def _keep_counted(self) -> None:
        for replica in self._replicas:
            replica.keep_counted()

    def met(self, members: Sequence[Member], replicas: Sequence[TakingPart], number: int) -> Sequence[OperationResult]:
        if self._replicas[0].reads is not None:
            self._keep_counted()
            return [replica.groups() for replica in self._replicas]
        if self._replicas[0].asks is not None:
            self._join_rows()
            if any(replica.asks is not None and replica.asks[0].dense in self.counted_reads for replica in self._replicas):
                self._keep_counted()
            return [replica.rows() for replica in self._replicas]
        if self._replicas[0].sends is None:
            return super().met(members, replicas, number)
        self._keep_counted()
        self._replicas[0].send()
        for replica in self._replicas:
            replica.sends = None
        return [None] * len(members)

    def _join_rows(self) -> None:
        """Let all replicas know which rows they read together."""
        asks = [replica.asks for replica in self._replicas if replica.asks is not None]
        for table, same in zip(asks[0][0].tables, zip(*[numbers for _, numbers in asks], strict=True), strict=True):
            table.ids.together(same)


def step_of_replicas(
    common: InProcess, task: TaskHere, local: LocalReplicas, linked: LinkedReplicas, call: ReplicaCalls, kept: Updates
) -> tuple[Bundle, ...]:
    """Let the replicas of a worker take a step; the result of each. What it changes of the chief's variables is added to `kept`."""
    members = [Member(rank, task.name, device, task) for rank, device in enumerate(local.on(task.name))]
    replicas = WorkerReplicas(common, local.communication, lambda _: task, kept, linked.counted_reads)
    return tuple(replicas.run(members, members, linked.programs, call.calls))
