"""Workers without a clock: a closure has run when `call` returns, and its reply is there."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from simdist import debugging
from simdist.errors import AbortedError
from simdist.interrupts import noted_interrupts
from simdist.process_state import TaskContext, active_context
from simdist.program.scope import Scope, open_scopes
from simdist.program.values import Bundle
from simdist.randomness import keras_seeds
from simdist.runtime.in_process.programs import Common, OneTask, TaskHere, raise_error
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import Apply
from simdist.runtime.work import StepResult, Worker, WorkerStep

__all__ = ["WorkersHere"]


class Reply:
    """What came of a closure, as `Handle`: it is there from the beginning.

    Attributes:
        noted: Ctrl-C while it ran; it counts when the reply has been taken, so that no closure is left half done.
    """

    def __init__(self, common: Common, updates: Sequence[tuple[Apply, Bundle]]) -> None:
        self.common = common
        self.updates = updates
        self.value: Any = None
        self.error: BaseException | None = None
        self.noted: list[BaseException] = []

    def wait(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def then(self, replied: Callable[[], None]) -> None:
        replied()
        if self.noted:
            self.noted.clear()
            signal.raise_signal(signal.SIGINT)

    def accept(self) -> None:
        for part, given in self.updates:
            self.common.change(part.group, part.kernel, given, f" of {part.task}")


class WorkersHere:
    """As `WorkerPool`.

    Args:
        common: what all tasks share.
        tasks: the workers.
        strategy: in whose scope code of users runs.
    """

    def __init__(self, common: Common, tasks: Sequence[TaskHere], strategy: Scope) -> None:
        self.common = common
        self._tasks = {task.name: task for task in tasks}
        self._contexts = {task.name: TaskContext(seeds=keras_seeds(common.seed, task.name, 0)) for task in tasks}
        for context in self._contexts.values():
            open_scopes.get(context).append(strategy)

    def call(self, task: str, step: WorkerStep, number: int) -> Reply:
        runtime = OneTask(self.common, self._tasks[task])

        def take() -> StepResult:
            call = step.bind(runtime.task)
            for _ in range(step.repeat):
                linked = step.link(runtime.task, call)
                taken = Step(linked, runtime, call.iterators, call.arrays, raise_error)
                taken.go()
            return StepResult(linked, taken.result)  # pyright: ignore[reportPossiblyUnboundVariable]

        return self._reply(runtime, number, take)

    def call_function(self, task: str, function: Callable[[Worker], Any], number: int) -> Reply:
        runtime = OneTask(self.common, self._tasks[task])
        return self._reply(runtime, number, lambda: function(runtime.task))

    def _reply(self, runtime: OneTask, number: int, work: Callable[[], Any]) -> Reply:
        """Do the work of a closure in the context of its worker."""
        self.common.require_usable(f"Closure {number} was to run")
        reply, task, before = Reply(self.common, runtime.kept), runtime.task, runtime.task.steps
        with noted_interrupts(reply.noted), inside(self._contexts[task.name]):
            try:
                reply.value = work()
            except Exception as error:
                reply.error = error
            except BaseException as wish:
                reply.error = AbortedError(
                    f"Closure {number} wanted to end the process of {task.name} ({wish!r}), which is this one. Raise an ordinary exception."
                )
                reply.error.__cause__ = wish
        if reply.error is not None:
            debugging.report(reply.error, f"closure {number}", task.name, 0, task.steps - before + 1, 0.0)
        return reply


@contextmanager
def inside(context: TaskContext) -> Iterator[None]:
    """Run code of users in the context of a worker."""
    outer = active_context()
    context.replace(outer)
    try:
        yield
    finally:
        outer.replace(active_context())
