"""A step on a host: the operations of its program there, as `TaskRuntime`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from simdist.errors import FailedPreconditionError
from simdist.program.kernels import Kernel
from simdist.program.row_numbers import RowNumbers
from simdist.program.step_iterator import StepBatch, StepIterator
from simdist.program.values import Bundle
from simdist.randomness import step_key
from simdist.runtime.base import PENDING, Later, StepInProgress
from simdist.runtime.in_process.computing import arrays_of, call_kernel, no_collective_here, require_finite
from simdist.runtime.in_process.isolated.arrays import bundle_of
from simdist.runtime.in_process.isolated.held_groups import HeldGroups
from simdist.runtime.in_process.isolated.sent_batches import SentBatches
from simdist.runtime.in_process.programs import kept_updates
from simdist.runtime.in_process.replica_view import ReplicaView
from simdist.runtime.in_process.row_reading import flat, part_of, read_table
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import Apply, ApplyAll, CheckFinite, LinkedCollective, ReadGroups, ReadWithRows, RowShard, RunKernel
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.wire import RemoteProgram
from simdist.runtime.wire.messages import BeginStep, ChangeGroup, FetchedGroups, FetchGroups, FetchRows, InCollective, Message, StepEnded

__all__ = ["HostStep", "Kept", "ReplicaStep", "Surroundings", "WorkerStep"]

Kept: TypeAlias = tuple[int, int, int, tuple[Any, ...]]
"""An update that the driver makes: rank, operation, part, operands."""


class Surroundings(Protocol):
    """What a step needs of the host that it runs on."""

    name: str
    seed: int
    chief: str
    groups: HeldGroups

    def digest_of(self, kernel: Kernel) -> str:
        """By which other tasks know a kernel."""
        ...

    def ask(self, task: str, request: Message) -> Message:
        """Ask another task; its reply."""
        ...


class HostStep(ABC):
    """What steps of workers and of replicas have in common.

    Args:
        host: where it runs.
        program: what it runs.
        begin: with what.
    """

    step: StepInProgress
    which: tuple[object, ...] = ()  # replica, in what its random keys are drawn for

    def __init__(self, host: Surroundings, program: RemoteProgram, begin: BeginStep) -> None:
        self.host = host
        self.program = program
        self.number = begin.number
        self.draw = begin.draw
        self.device = begin.device
        self.holders = dict(begin.holders)
        self.observed: list[str] = []
        iterators = [SentBatches(batches) for batches in begin.batches]
        self._step = Step(program, self, iterators, begin.arguments, lambda _: None)

    def go(self, result: Bundle | None = None) -> Message:
        """Begin, or go on with what a collective gave; what to tell the driver."""
        self._step.go(result)
        if self._step.error is not None:
            raise self._step.error
        return StepEnded(arrays_of(self._step.result), self.kept(), tuple(self.observed))

    def kept(self) -> tuple[Kept, ...]:
        """Updates that the driver makes."""
        return ()

    def _where(self) -> str:
        return f" of {self.device}, step {self.number}"

    # -- as TaskRuntime

    def next_batch(self, iterator: StepIterator) -> StepBatch:
        return iterator.next_batch()

    def random_key(self, salt: int) -> Any:
        return step_key(self.host.seed, self.host.name, self.draw, salt, *self.which)

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        return self.found(op)

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        return self.found_rows(op, numbers)

    def found(self, op: ReadGroups) -> Sequence[Bundle]:
        """Groups that this task holds; the others are asked for, once each task that holds some."""
        found: dict[int, Bundle] = {}
        elsewhere: dict[str, list[int]] = {}
        for group in op.numbers:
            if self.host.name in self.holders[group]:
                found[group] = self.present(group)
            else:
                elsewhere.setdefault(self.holders[group][0], []).append(group)
        for task, groups in elsewhere.items():
            reply = self.host.ask(task, FetchGroups(tuple(groups)))
            assert isinstance(reply, FetchedGroups)
            found.update(zip(groups, map(bundle_of, reply.groups), strict=True))
        return [found[group] for group in op.numbers]

    def found_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle]:
        """Rows that this task holds; others are asked for, shard by shard."""

        def rows_of(shard: RowShard, rows: Any) -> Any:
            if self.host.name in self.holders[shard.group]:
                return np.asarray(arrays_of(self.present(shard.group))[shard.position])[rows]
            reply = self.host.ask(self.holders[shard.group][0], FetchRows(shard.group, shard.position, (rows,)))
            assert isinstance(reply, FetchedGroups)
            return reply.groups[0][0]

        whole = self.found(ReadGroups(tuple([(part.group, part.output, part.size_bytes) for part in op.parts])))
        parts = [part_of(part, group) for part, group in zip(op.parts, whole, strict=True)]
        return [*self.found(op.dense), *parts, *(read_table(table, own, rows_of) for table, own in zip(op.tables, numbers, strict=True))]

    def present(self, group: int) -> Bundle:
        """A group that this task holds, as this step sees it."""
        return self.host.groups.present(group)

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: StepBatch | None, host: tuple[Any, ...]) -> Sequence[Bundle]:
        leaves = () if batch is None else batch.leaves()
        return call_kernel(op.kernel, inputs, op.writes, [*leaves, *host], self._where())

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        raise no_collective_here(self.host.name, op.collective)

    @abstractmethod
    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        """Change groups, wherever they are held."""

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        self.observed.append(op.message)
        require_finite(bundle, op.message, self.host.name, self.number)

    def step_done(self) -> None:  # noqa: B027
        """The driver counts steps."""


class WorkerStep(HostStep):
    """The step of a worker: updates go to the tasks that hold the groups, those of the chief's go back with the reply."""

    rank = 0

    def __init__(self, host: Surroundings, program: RemoteProgram, begin: BeginStep) -> None:
        super().__init__(host, program, begin)
        self._kept: list[Kept] = []
        self._updates = kept_updates()
        self._updates.begin_with((group, bundle_of(arrays)) for group, arrays in begin.changed)

    def kept(self) -> tuple[Kept, ...]:
        return tuple(self._kept)

    def found(self, op: ReadGroups) -> Sequence[Bundle]:
        return [self._updates.seen(group, present) for group, present in zip(op.numbers, super().found(op), strict=True)]

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        self.send(op, operands)

    def send(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> None:
        """Make an update now."""
        for number, (part, given) in enumerate(zip(op.parts, map(flat, operands), strict=True)):
            if part.task == self.host.chief:
                self._kept.append((self.rank, self.program.operations.index(op), number, arrays_of(given)))
                self._updates.add(part.group, (part, given))
            else:
                self._change(part, given)

    def _change(self, part: Apply, given: Bundle) -> None:
        for task in self.holders[part.group]:
            if task == self.host.name:
                self.host.groups.change(part.group, part.kernel, given, self._where())
            else:
                self.host.ask(task, ChangeGroup(part.group, self.host.digest_of(part.kernel), arrays_of(given), self._where()))


class ReplicaStep(HostStep):
    """The step of one replica. What it changes counts when the step is over for all of them.

    Args:
        host, program, begin: as of `HostStep`.
        view: of the versions that the replicas of this host have made in the step.
    """

    def __init__(self, host: Surroundings, program: RemoteProgram, begin: BeginStep, view: ReplicaView) -> None:
        super().__init__(host, program, begin)
        self.view = view
        self.which = () if begin.is_alone else ("replica", begin.rank)
        self._given: Bundle | None = None

    def go(self, result: Bundle | None = None) -> Message:
        self._given = None
        ended = super().go(result)
        if self._given is None:
            return ended
        return InCollective(self._step.position, arrays_of(self._given), tuple(self.observed))

    def present(self, group: int) -> Bundle:
        return self.view.present(group)

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        self._given = operands
        return PENDING

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> None:
        for part, given in zip(op.parts, map(flat, operands), strict=True):
            if self.host.name not in self.holders[part.group]:
                raise FailedPreconditionError(
                    f"A replica on {self.device} was to change a variable of {', '.join(self.holders[part.group])} in a step of several "
                    "replicas, which count together or not at all. Give it a variable on its own task."
                )
            self.view.change(part.group, part.kernel, given, self._where())
