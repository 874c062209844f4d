"""`SimulatedRun`: the mains that were launched on the tasks of a cluster, and their results.

A run ends when the mains have ended for which it waits. A server (a main in `Server.join`) ends with the last main of the cluster that is
at work; its crash is no failure of the run, because its task serves again as soon as it is up. A run waits for no evaluator, except for
one that was launched without other tasks: its fiber is a daemon, so an evaluator that looks for checkpoints for ever keeps no run alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeGuard

from simdist import debugging
from simdist.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    SimdistError,
    TimedOutError,
    UnavailableError,
)
from simdist.jax_settings import open_settings
from simdist.program.scope import start_own_default
from simdist.runtime.launched_main import LaunchedMain, launched_main
from simdist.runtime.simulated.collective_timeouts import HeldUpError
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.worker_group import main_returned
from simdist.runtime.simulated.world import World
from simdist.runtime.work import Returned
from simdist.simulation.fiber import TaskKilled
from simdist.simulation.kernel import Fiber, current_fiber

__all__ = ["SimulatedRun"]

# A main that fails so often is not going to succeed.
MAX_RESTARTS = 20
BACK_OFF_S = 1.0


class SimulatedRun:
    """Mains on tasks, one each.

    Attributes:
        results: what the mains returned, by task.
        restarts: how often each main was started again.
    """

    def __init__(
        self,
        world: World,
        cluster: object,
        tasks: Sequence[Task],
        main: Callable[[], Returned],
        environ: Callable[[str], dict[str, str]],
        restart: str,
    ) -> None:
        self.cluster = cluster
        self.world = world
        self.main = main
        self.environ = environ
        self.restart = restart
        self.results: dict[str, Returned] = {}
        self.restarts = {task.name: 0 for task in tasks}
        self._jax_settings = open_settings()
        self._started: set[str] = set()  # those whose mains have started, if not all tasks were up at once
        self.tasks = tasks
        self._error: BaseException | None = None
        self._left = {task.name for task in tasks}
        self._awaited = {name for name in self._left if not name.startswith("evaluator:")} or set(self._left)
        self._released: set[str] = set()  # servers that are to end
        self._done = self.world.clock.gate()
        for task in tasks:
            self._launch(task)

    def _launch(self, task: Task) -> None:
        self.world.mains[task.name].append(self._restarted)
        for known_s in (self.world.starts_again_s, self.world.started_again_s):
            known_s.pop(task.name, None)  # of an earlier run
        if task is self.world.chief:
            self.world.chief_is_launched = True
        if not task.name.startswith("evaluator:"):
            self.world.serving_mains.launched((self, task.name))
        if task.alive:
            self._start(task)
        elif self.restart == "never":
            self._give_up(task, UnavailableError(f"{task.name} is down, so its main cannot start. Launch it when the task is up again."))

    def join(self) -> None:
        """Wait for all mains that have an end; raise the first error that was not followed by a restart.

        A crash, and what the others make of it, is raised when all mains have ended; a main's own error ends the wait at once.
        """
        try:
            self.world.clock.wait(self._done, "the launched mains to end")
        except DeadlineExceededError:
            # A main that waits for ever waits, as a rule, for the main that failed; what a main has raised itself is its own.
            error = None if self._done.is_open else self._error or self._down() or self._all_serve()
            if error is None:
                raise
            raise error from None

    def _down(self) -> UnavailableError | None:
        """The error where mains are to start again, but their tasks are not restarted."""
        down = [task.name for task in self.tasks if task.name in self._left & self._awaited and not task.alive]
        if not down:
            return None
        return UnavailableError(
            f"{', '.join(down)} crashed and {'does' if len(down) == 1 else 'do'} not start again, so the main cannot. Give the fault a "
            "restart_after=."
        )

    def _all_serve(self) -> DeadlineExceededError | None:
        """The error where nothing is left but servers, and no main has ended whose end would end them."""
        serving = [name for name in self.restarts if self.world.serving_mains.is_serving((self, name))]
        if not serving or self._awaited & self._left > set(serving):
            return None
        return DeadlineExceededError(
            f"{', '.join(serving)} {'waits' if len(serving) == 1 else 'wait'} in Server.join(), and there is no other main whose end would "
            "end them. Launch the main of the chief, too; or coordinate from here, and close the cluster instead of join()."
        )

    def _start(self, task: Task) -> None:
        process = self.world.process_of_main(task, self.environ(task.name))
        context = self.world.context_of(task, process, f"[{task.name}] ", self._jax_settings)
        main = LaunchedMain(self.cluster, task.name, self.results, lambda: self._serve(task))
        launched_main.set(main, context)
        start_own_default(context)
        self._started.add(task.name)
        fiber = self.world.start(task, lambda: self._run(main), context=context)
        fiber.is_daemon = task.name not in self._awaited
        incarnation = task.process
        fiber.finished.then(lambda _: self._ended(task, fiber, incarnation, main))

    def _run(self, main: LaunchedMain) -> object:
        result = self.main()
        for call in main.last_calls:
            call()
        return result

    def _ended(self, task: Task, fiber: Fiber, process: Incarnation, main: LaunchedMain) -> None:
        error = None if fiber.killed else _as_error(task, fiber.error)
        if not fiber.killed:
            for ending in main.endings:
                ending(error)
        if process is not task.process or task.name not in self._left:
            return
        if fiber.killed:
            if self.world.clock.is_closed:
                self._give_up(task, FailedPreconditionError(f"{task.name} was ended by cluster.close(). Call join() of the run before it."))
            elif task.name in self._released or (self.restart == "never" and self.world.serving_mains.is_serving((self, task.name))):
                self._finish(task)
            elif self.restart == "never":
                self._give_up(task, UnavailableError(f"{task.name} crashed, and restart='never'. Use restart='always' to start it again."))
            return  # otherwise the runtime restarts the task, or join() raises because no restart is planned
        if error is None:
            self.results[task.name] = fiber.result
            main_returned(self.world, task.name, self.results)
            self._finish(task)
            return
        debugging.report(error, "its main", task.name, process.incarnation, 0, self.world.now)
        self._failed(task, process, error)

    def _serve(self, task: Task) -> NoReturn:
        """Wait, on the fiber of a main, until there is no work any more; the main does not go on."""
        fiber, clock = current_fiber(), self.world.clock
        assert fiber is not None
        self.world.serving_mains.serves((self, task.name), lambda: self._release(task, fiber))
        clock.wait(clock.gate(), "the end of its server (join)")
        raise TaskKilled(f"the server of {task.name} has ended")

    def _release(self, task: Task, fiber: Fiber) -> None:
        """There is no work for a server any more: its main ends, and its task goes on."""
        self._released.add(task.name)
        if fiber.ended or fiber.dead:
            self._finish(task)  # its task is down
        else:
            self.world.clock.after(0.0, self.world.clock.kill, fiber)

    def _failed(self, task: Task, process: Incarnation, error: BaseException) -> None:
        """A main has ended with an error."""
        if not _is_of_a_fault(error):
            self._done.fail(error)
            self._forget(task)
        elif self.restart == "always" and self.restarts[task.name] < MAX_RESTARTS:
            if isinstance(error.__cause__, SystemExit) and self.world.preemptions.give_back(task):
                return  # it starts again on another machine, if there is one
            delay_s = BACK_OFF_S * min(2.0 ** self.restarts[task.name], 32.0)
            self.world.starts_again_s[task.name] = self.world.now + delay_s
            self.world.clock.after(delay_s, self._again, (task, process))
        else:
            self._give_up(task, error if self.restart == "never" else _too_often(task, error))

    def _again(self, failed: tuple[Task, Incarnation]) -> None:
        task, process = failed
        if not (process is task.process and process.alive):
            return  # it crashed in the meantime: the next incarnation starts the main, if there is one
        if task.held is not None:
            task.held.append((self._again, failed))
            return
        self.world.trace.instant(task.name, "restart", f"the main of {task.name} starts again", self.world.now, cause=task.trouble)
        self.restarts[task.name] += 1
        self._start_again(task)

    def _restarted(self, task: Task) -> None:
        if self.restart == "always" and task.name in self._left:
            self.restarts[task.name] += task.name in self._started
            self._start_again(task)

    def _start_again(self, task: Task) -> None:
        if task.name in self._awaited:
            self.world.serving_mains.started_again((self, task.name))
        self.world.starts_again_s.pop(task.name, None)
        self.world.started_again_s[task.name] = self.world.now
        task.draws = 0  # a process that starts again counts from the beginning, unless it restores how far it was
        self._start(task)

    def _give_up(self, task: Task, error: BaseException) -> None:
        """Do not start this main again; the others may still end."""
        if task.name in self._awaited:
            self._error = self._error or error
        self._finish(task)

    def _forget(self, task: Task) -> None:
        """Do not run this main again."""
        self._left.discard(task.name)
        if self._restarted in self.world.mains[task.name]:
            self.world.mains[task.name].remove(self._restarted)
        self.world.serving_mains.ended((self, task.name))

    def _finish(self, task: Task) -> None:
        self._forget(task)
        if self._left & self._awaited:
            return
        if self._error is None:
            self._done.open()
        else:
            self._done.fail(self._error)


def _too_often(task: Task, error: SimdistError) -> SimdistError:
    """The error of a main that is not started again, although others of its kind were followed by a restart."""
    kinds = TimedOutError, UnavailableError, DeadlineExceededError
    kind = next((kind for kind in kinds if isinstance(error, kind)), AbortedError)
    failed = kind(
        f"The main of {task.name} was started again {MAX_RESTARTS} times, the most that restart='always' does, and failed once more. Find "
        f"out why it fails so often; or launch it again, which goes on with the last checkpoint. The last error: {error}"
    )
    failed.__cause__ = error
    return failed


def _is_of_a_fault(error: BaseException) -> TypeGuard[SimdistError]:
    """Whether a main that starts again may succeed where it has failed with this."""
    return isinstance(error, (UnavailableError, AbortedError)) or isinstance(error.__cause__, HeldUpError)


def _as_error(task: Task, error: BaseException | None) -> BaseException | None:
    """The outcome of a main that has exited: with status 0 it has succeeded, otherwise its process has failed."""
    if not isinstance(error, SystemExit):
        return error
    if error.code in (None, 0):
        return None
    failed = AbortedError(f"The main of {task.name} called sys.exit({error.code!r}). Exit with status 0, or raise what went wrong.")
    failed.__cause__ = error
    return failed
