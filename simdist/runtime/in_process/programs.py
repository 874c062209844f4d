"""The tasks of this process, as a program sees them: kernels are called, variables read and changed, at once."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any, Protocol

import numpy as np

from simdist.errors import FailedPreconditionError
from simdist.program.kernels import Kernel
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Bundle
from simdist.randomness import step_key
from simdist.runtime.base import Later, StepInProgress
from simdist.runtime.closure_updates import ClosureUpdates
from simdist.runtime.directories import Directories
from simdist.runtime.in_process.computing import arrays_of, call_kernel, next_batch, no_collective_here, require_finite
from simdist.runtime.in_process.row_reading import flat, part_of, read_table
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import Apply, ApplyAll, CheckFinite, LinkedCollective, ReadGroups, ReadWithRows, RowShard, RunKernel
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.state import GroupStates
from simdist.runtime.unfinished import Unfinished
from simdist.trace import Trace

__all__ = ["OneTask", "InProcessDriver", "Shared", "TaskHere", "raise_error"]


def raise_error(step: Step) -> None:
    """The end of a step: the code that runs it gets its error."""
    if step.error is not None:
        raise step.error


class InProcessDriver:
    """What a driver is to its engine, whether its tasks share its memory or not.

    Args:
        seed: of all random streams.
        chief: the name of the task whose variables change when a reply is accepted.

    Attributes:
        trace: what has happened.
    """

    def __init__(self, seed: int, chief: str) -> None:
        self.seed = seed
        self.chief = chief
        self.trace = Trace(seed=seed)
        self.unfinished: list[Unfinished] = []
        self.directories = Directories()
        self._thread = get_ident()
        self._is_closed = False

    def observe(self, task: str, message: str) -> None:
        """Write down that a step has looked at a value."""
        self.trace.instant(task, "observe", message, 0.0)
        self.trace.observed()

    def require_usable(self, what: str) -> None:
        """See `Engine.require_usable`."""
        if get_ident() != self._thread:
            raise FailedPreconditionError("A cluster was used from another thread than the one that made it. Make the call there.")
        if self._is_closed:
            raise FailedPreconditionError(f"{what} after the cluster was closed: its tasks have ended. Make another with cluster.fresh().")

    def close(self) -> None:
        """End all tasks."""
        self._is_closed = True


class Shared(Protocol):
    """What all tasks of a cluster share.

    Attributes:
        seed: of all random streams.
        chief: the name of the task whose variables change when a reply is accepted.
        versions: the values of all variables.
    """

    seed: int
    chief: str
    versions: GroupStates

    def observe(self, task: str, message: str) -> None:
        """Write down that a step has looked at a value."""
        ...

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, of its arrays and the given ones."""
        ...


class TaskHere:
    """A task, as `Worker`; its one incarnation is up for ever, as `Process`."""

    alive = True
    incarnation = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self.draws = 0  # steps that drew random numbers
        self.local: dict[Any, Any] = {}


Updates = ClosureUpdates[tuple[Apply, Bundle]]
"""Updates of the chief's variables, each with its operands."""


def kept_updates() -> Updates:
    """None yet, of a closure that begins."""
    return ClosureUpdates(lambda version, update: call_kernel(update[0].kernel, [version, update[1]], [update[0].state], [], "")[0])


class OneTask:
    """The task of a program, as `TaskRuntime`.

    Args:
        common: what all tasks share.
        task: where it runs.
        kept: gets the updates of the chief's variables, which count if the reply is accepted.
    """

    step: StepInProgress
    which: tuple[object, ...] = ()  # replica, in what its random keys are drawn for

    def __init__(self, common: Shared, task: TaskHere, kept: Updates) -> None:
        self.common = common
        self.task = task
        self.kept = kept
        self._draws = False

    def next_batch(self, iterator: Any) -> Any:
        return next_batch(iterator, self.task.name)

    def random_key(self, salt: int) -> Any:
        self._draws = True
        return step_key(self.common.seed, self.task.name, self.task.draws, salt, *self.which)

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        return self.present(op)

    def present(self, op: ReadGroups) -> Sequence[Bundle]:
        """The groups of a read as they are now."""
        return [self.kept.seen(group, self.common.versions.present(group)) for group in op.numbers]

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        def rows_of(shard: RowShard, rows: Any) -> Any:
            return np.asarray(arrays_of(self.common.versions.present(shard.group))[shard.position])[rows]

        parts = [part_of(part, self.common.versions.present(part.group)) for part in op.parts]
        return [*self.present(op.dense), *parts, *(read_table(table, own, rows_of) for table, own in zip(op.tables, numbers, strict=True))]

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle]:
        leaves = () if batch is None else batch.leaves()
        return call_kernel(op.kernel, inputs, op.writes, [*leaves, *host], self._where())

    def _where(self) -> str:
        return f" of {self.task.name}, step {self.task.steps}"

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        raise no_collective_here(self.task.name, op.collective)

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        for part, given in zip(op.parts, map(flat, operands), strict=True):
            if part.task == self.common.chief:
                self.kept.add(part.group, (part, given))
            else:
                self.common.change(part.group, part.kernel, given, self._where())

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        self.common.observe(self.task.name, op.message)
        require_finite(bundle, op.message, self.task.name, self.task.steps)

    def step_done(self) -> None:
        self.task.steps += 1
        self.task.draws += self._draws
        self._draws = False
