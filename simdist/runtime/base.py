"""The seam: what a program meets where it runs.

Above it are strategies, coordinator and trainer, which know no clock and no network. Below it are runtimes, which know no
strategy. A driver ships work to tasks; a program on a task reads, computes, updates and combines through `TaskRuntime`
and through nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from simdist.program.values import Bundle
from simdist.runtime.linked import ApplyAll, CheckFinite, Meeting, ReadGroups, Run

__all__ = ["TaskRuntime"]


class TaskRuntime(Protocol):
    """What a program can ask of the task that runs it. Every method may block."""

    def next_batch(self, iterator: Any) -> Any:
        """The next batch of an iterator of this task; `OutOfRangeError` at its end."""
        ...

    def random_key(self, salt: int) -> Any:
        """Two uint32 that depend on the seed, the task, its step and `salt`."""
        ...

    def read(self, op: ReadGroups) -> list[Bundle]:
        """The present versions of groups, wherever they live."""
        ...

    def run(self, op: Run, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle]:
        """Call a kernel on this task's device."""
        ...

    def meet(self, op: Meeting, operands: Bundle) -> Bundle:
        """Exchange arrays with the other replicas of the step; done when this replica has what it gets."""
        ...

    def apply(self, op: ApplyAll, operands: list[Bundle]) -> None:
        """Change groups, wherever they live; done when all of them have confirmed."""
        ...

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        """Stop with `InvalidArgumentError` when a value is not finite."""
        ...

    def step_done(self) -> None:
        """One step of the program is over."""
        ...
