"""Replicas of one worker on its host: what is done once for all is done when the driver says that all have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, Later, OperationResult
from simdist.runtime.counted_reads import dense_read
from simdist.runtime.in_process.computing import arrays_of
from simdist.runtime.in_process.isolated.arrays import bundle_of
from simdist.runtime.in_process.isolated.host_step import Kept, Surroundings, WorkerStep
from simdist.runtime.in_process.programs import kept_updates
from simdist.runtime.linked import ApplyAll, LinkedCollective, ReadGroups, ReadWithRows
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.wire import RemoteProgram
from simdist.runtime.wire.messages import BeginStep, InCollective, Message, StepEnded

__all__ = ["JointStep", "WorkerReplicaStep"]


class WorkerReplicaStep(WorkerStep):
    """The step of one replica of a worker.

    Args:
        host, program, begin: as of `HostStep`.
        joint: the step of all of them.

    Attributes:
        came: the operation to which all come that it has come to, and what it brings; None while it goes on.
        counted: what it has added for itself to sums over the replicas, and has not kept yet.
    """

    def __init__(self, host: Surroundings, program: RemoteProgram, begin: BeginStep, joint: JointStep) -> None:
        super().__init__(host, program, begin)
        self.rank = begin.rank or 0
        self.which = "replica", self.rank
        self.came: tuple[ReadGroups | ReadWithRows | ApplyAll, Any] | None = None
        self.counted: list[tuple[ApplyAll, Sequence[Bundle | RowOperands]]] = []
        self._kept, self._updates = joint.kept, joint.updates
        counted = [dense_read(program.operations[number]) for number in begin.counted or ()]
        self._counted_reads = frozenset([read for read in counted if read is not None])
        self._given: Bundle | None = None

    def go(self, result: Bundle | None = None) -> Message:
        answer = result if self.came is None else self._answer()
        self.came = self._given = None
        ended = super().go(answer)
        if self._given is None and self.came is None:
            return ended
        return InCollective(self._step.position, () if self._given is None else arrays_of(self._given), tuple(self.observed))

    def kept(self) -> tuple[Kept, ...]:
        """None: they are those of the step of all replicas."""
        return ()

    def is_counted(self, read: ReadGroups) -> bool:
        """Whether a read is one of what all replicas have counted."""
        return read in self._counted_reads

    def _answer(self) -> OperationResult:
        """The result of the operation to which all have come."""
        assert self.came is not None
        op, given = self.came
        match op:
            case ReadGroups():
                return self.found(op)
            case ReadWithRows():
                return self.found_rows(op, given)
            case ApplyAll():
                return None

    # -- as TaskRuntime

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        if op not in self._counted_reads:
            return self.found(op)
        self.came = op, None
        return PENDING

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        self.came = op, numbers
        return PENDING

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        if op.of_each:
            self.counted.append((op, operands))
            return None
        self.came = op, operands
        return PENDING

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        self._given = operands
        return PENDING


class JointStep:
    """A step of the replicas of a worker, which come to it one after the other.

    Args:
        begin: how the first of them begins.

    Attributes:
        kept: updates that the driver makes.
        updates: the same, as the closure sees them.
        replicas: by rank.
    """

    def __init__(self, begin: BeginStep) -> None:
        self.kept: list[Kept] = []
        self.updates = kept_updates()
        self.updates.begin_with((group, bundle_of(arrays)) for group, arrays in begin.changed)
        self.replicas: list[WorkerReplicaStep] = []

    def join(self) -> None:
        """All have come to the same operation: do what it does once for all of them."""
        came = [replica.came for replica in self.replicas if replica.came is not None]
        op, given = came[0]
        if isinstance(op, ReadWithRows):
            for table, same in zip(op.tables, zip(*[numbers for _, numbers in came], strict=True), strict=True):
                table.ids.together(same)
        reads = [dense_read(one) for one, _ in came]
        if any(read is None or replica.is_counted(read) for replica, read in zip(self.replicas, reads, strict=True)):
            self._keep_counted()
        if isinstance(op, ApplyAll):
            self.replicas[0].send(op, given)

    def end(self) -> StepEnded:
        """All have ended the step: what is kept of it."""
        self._keep_counted()
        return StepEnded((), tuple(self.kept), ())

    def _keep_counted(self) -> None:
        for replica in self.replicas:
            for op, operands in replica.counted:
                replica.send(op, operands)
            replica.counted = []
