"""`Run`: the mains that were launched on the tasks of a cluster, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simdist import debugging
from simdist.errors import AbortedError, DeadlineExceededError, UnavailableError
from simdist.runtime.simulated import SimulatedRuntime
from simdist.runtime.task import Task
from simdist.simulation.kernel import Fiber, TaskKilled
from simdist.simulation.task_context import TaskContext

__all__ = ["Run"]

# A main that fails so often is not going to succeed.
MAX_RESTARTS = 20
BACK_OFF_S = 1.0


class Run:
    """Mains on tasks, one each.

    Attributes:
        results: what the mains returned, by task.
        restarts: how often each main was started again.
    """

    def __init__(
        self,
        cluster: Any,
        tasks: Sequence[Task],
        main: Callable[[Task], Any],
        environ: Callable[[Task], dict[str, str]],
        restart: str,
    ) -> None:
        self.cluster = cluster
        self.runtime: SimulatedRuntime = cluster.runtime
        self.main = main
        self.environ = environ
        self.restart = restart
        self.results: dict[str, Any] = {}
        self.restarts = {task.name: 0 for task in tasks}
        self._error: BaseException | None = None
        self._left = {task.name for task in tasks}
        self._done = self.runtime.clock.gate()
        for task in tasks:
            self.runtime.mains[task.name] = self._restarted
            self._start(task)

    def join(self) -> None:
        """Wait for all mains; raise the first error that was not followed by a restart.

        A crash, and what the others make of it, is raised when all mains have ended; a main's own error ends the wait at once.
        """
        try:
            self.runtime.clock.wait(self._done, "the launched mains to end")
        except DeadlineExceededError:
            if self._error is None:
                raise
            # Whoever waits for ever waits, as a rule, for the main that failed.
            raise self._error from None

    def _start(self, task: Task) -> None:
        context = self.runtime.context_of(task, self.environ(task), f"[{task.name}] ")
        context.locals["here"] = (self.cluster, task)
        fiber = self.runtime.start(task, lambda: self.main(task), context=context)
        incarnation = task.incarnation
        fiber.finished.then(lambda _: self._ended(task, fiber, incarnation, context))

    def _ended(self, task: Task, fiber: Fiber, incarnation: int, context: TaskContext) -> None:
        if not isinstance(fiber.error, TaskKilled):
            for ending in context.locals.get("endings", ()):
                ending(fiber.error)
        if incarnation != task.incarnation:
            return
        error = fiber.error
        if error is not None and not isinstance(error, TaskKilled):
            debugging.report(error, "its main", task.name, incarnation, 0, self.runtime.now)
        if error is None:
            self.results[task.name] = fiber.result
            self._finish(task)
        elif isinstance(error, TaskKilled):
            if self.restart == "never":
                self._give_up(task, UnavailableError(f"{task.name} crashed, and restart='never'. Use restart='always' to start it again."))
            # Otherwise the runtime restarts the task, or join() says that nothing can end the wait.
        elif isinstance(error, (UnavailableError, AbortedError)) and self.restart == "always" and self.restarts[task.name] < MAX_RESTARTS:
            self.restarts[task.name] += 1
            delay_s = BACK_OFF_S * min(2.0 ** (self.restarts[task.name] - 1), 32.0)
            self.runtime.clock.after(delay_s, self._again, task)
        elif isinstance(error, (UnavailableError, AbortedError)):
            self._give_up(task, error)
        else:
            self._done.fail(error)

    def _again(self, task: Task) -> None:
        self.runtime.trace.instant(task.name, "restart", f"the main of {task.name} starts again", self.runtime.now)
        self._start(task)

    def _restarted(self, task: Task) -> None:
        if self.restart == "always" and task.name in self._left:
            self.restarts[task.name] += 1
            self._start(task)

    def _give_up(self, task: Task, error: BaseException) -> None:
        """This main does not start again; the others may still end."""
        self._error = self._error or error
        self._finish(task)

    def _finish(self, task: Task) -> None:
        self._left.discard(task.name)
        self.runtime.mains.pop(task.name, None)
        if self._left:
            return
        if self._error is None:
            self._done.open()
        else:
            self._done.fail(self._error)
