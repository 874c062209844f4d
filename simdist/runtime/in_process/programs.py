"""What a program meets on a task of this process: kernels are called, variables read and changed, at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from threading import get_ident
from typing import Any

import jax
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle, BundleType
from simdist.randomness import step_key
from simdist.runtime.base import Later, StepInProgress
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import Apply, ApplyAll, CheckFinite, LinkedCollective, ReadGroups, RunKernel
from simdist.runtime.state import GroupStates
from simdist.trace import Trace

__all__ = ["Common", "OneTask", "TaskHere", "arrays_of", "call_kernel", "raise_error"]


def call_kernel(
    kernel: Kernel, bundles: Sequence[Bundle], writes: Sequence[BundleType], rest: Sequence[Any] = (), where: str = ""
) -> list[Bundle]:
    """The results of a kernel, bundle by bundle; also while somebody else is tracing."""
    arrays = [array for bundle in bundles for array in arrays_of(bundle)]
    with jax.ensure_compile_time_eval():
        try:
            results = iter(kernel(*arrays, *rest))
        except Exception as error:
            error.add_note(f"while computing {kernel.name}{where}")
            raise
    return [Bundle(avals, tuple(islice(results, len(avals)))) for avals in writes]


def arrays_of(bundle: Bundle) -> tuple[Any, ...]:
    """The arrays of a bundle; here all are there from the beginning."""
    assert bundle.arrays is not None
    return bundle.arrays


def raise_error(step: Step) -> None:
    """What is told of the end of a step: whoever runs it gets its error."""
    if step.error is not None:
        raise step.error


class Common:
    """What all tasks of a cluster share.

    Args:
        seed: of all random streams.
        chief: the name of the task whose variables change when a reply is accepted.
        hold: as of `GroupStates`.

    Attributes:
        trace: what has happened.
        versions: the values of all variables.
    """

    def __init__(self, seed: int, chief: str, hold: Callable[[str, str, int], None]) -> None:
        self.seed = seed
        self.chief = chief
        self.trace = Trace(seed=seed)
        self.versions = GroupStates(arrays_of, lambda kernel, given, writes: call_kernel(kernel, given, [writes])[0], hold)
        self._thread = get_ident()
        self._is_closed = False

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, of its arrays and the given ones."""
        before = self.versions.present(group)
        self.versions.put(group, call_kernel(kernel, [before, given], [before.avals], where=where)[0])

    def require_usable(self, what: str) -> None:
        """See `Engine.require_usable`."""
        if get_ident() != self._thread:
            raise FailedPreconditionError("A cluster was used from another thread than the one that made it. Make the call there.")
        if self._is_closed:
            raise FailedPreconditionError(f"{what} after the cluster was closed: its tasks have ended. Make another with cluster.fresh().")

    def close(self) -> None:
        """End all tasks."""
        self._is_closed = True


class TaskHere:
    """A task, as `Worker`; its one incarnation is up for ever, as `Process`."""

    alive = True
    incarnation = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self.local: dict[Any, Any] = {}


class OneTask:
    """What a program of one task meets there, as `TaskRuntime`.

    Args:
        common: what all tasks share.
        task: where it runs.

    Attributes:
        kept: updates of the chief's variables, which count if the reply is accepted.
    """

    step: StepInProgress
    which: tuple[object, ...] = ()  # replica, in what its random keys are drawn for

    def __init__(self, common: Common, task: TaskHere) -> None:
        self.common = common
        self.task = task
        self.kept: list[tuple[Apply, Bundle]] = []

    def next_batch(self, iterator: Any) -> Any:
        try:
            return iterator.next_batch()
        except StopIteration:
            raise OutOfRangeError(
                f"The dataset of {self.task.name} has run out. Ask for fewer steps, or end the dataset with .repeat()."
            ) from None

    def random_key(self, salt: int) -> Any:
        return step_key(self.common.seed, self.task.name, self.task.steps, salt, *self.which)

    def read(self, op: ReadGroups) -> Sequence[Bundle]:
        return [self.common.versions.present(group) for group in op.numbers]

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle]:
        leaves = () if batch is None else batch.leaves()
        return call_kernel(op.kernel, inputs, op.writes, [*leaves, *host], self._where())

    def _where(self) -> str:
        return f" of {self.task.name}, step {self.task.steps}"

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        raise FailedPreconditionError(
            f"{self.task.name} was to meet other replicas ({op.collective}), but its strategy has one replica for each step."
        )

    def update(self, op: ApplyAll, operands: Sequence[Bundle]) -> None:
        for part, given in zip(op.parts, operands, strict=True):
            if part.task == self.common.chief:
                self.kept.append((part, given))
            else:
                self.common.change(part.group, part.kernel, given, self._where())

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        self.common.trace.instant(self.task.name, "observe", op.message, 0.0)
        self.common.trace.observed()
        if not all(np.isfinite(np.asarray(array)).all() for array in arrays_of(bundle)):
            raise InvalidArgumentError(
                f"{op.message}: a value is NaN or Inf ({self.task.name}, step {self.task.steps}). Lower the learning rate, clip the "
                "gradients, or look at the input."
            )

    def step_done(self) -> None:
        self.task.steps += 1
