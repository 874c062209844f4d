"""The loop of a worker: take a closure, run it, reply.

A traced step is bound and linked by its coordinator's code (`WorkerStep`), in the context of this incarnation, as code of users runs
there; then it goes on by callbacks, `repeat` times. A plain function is simply called. Updates of the chief's variables travel with the
reply. The loop itself runs no code of a user and needs no context of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from simdist import debugging
from simdist.errors import AbortedError
from simdist.process_state import TaskContext
from simdist.program.function import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.base import StepResult, Worker, WorkerStep
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import Apply, LinkedProgram
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S, CallTimedOut
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.runtime.simulated.world import World
from simdist.simulation.fiber import Fiber, Gate, TaskKilled, words

__all__ = ["ClosureCall", "WorkerLoop"]


class ClosureCall:
    """A closure on its way to a worker and back: what the coordinator holds of it, as `Handle`.

    Args:
        world: where it is.
        task: the worker.
        number: of the closure.
        work: the step; or
        function: what is called.

    Attributes:
        updates: of the chief's variables, which count if the coordinator accepts the reply.
        step: that ran last, from 1 on.
    """

    def __init__(
        self, world: World, task: Task, number: int, work: WorkerStep | None = None, function: Callable[[Worker], Any] | None = None
    ) -> None:
        self.world = world
        self.task = task
        self.number = number
        self.work = work
        self.function = function
        self.value: Any = None
        self.error: BaseException | None = None
        self.updates: list[tuple[Apply, PricedProgram, Bundle]] = []
        self.step = 0
        self.replied = world.clock.gate()
        self._began_s = world.clock.env._now

    def wait(self) -> Any:
        """Block until there is a reply."""
        self.world.clock.wait(self.replied, f"closure {self.number}")
        if self.error is not None:
            raise self.error
        return self.value

    def then(self, replied: Callable[[], None]) -> None:
        """Call a function when the reply has come."""
        self.replied.then(lambda _: replied())

    def accept(self) -> None:
        """The reply counts: what travelled with it is applied on the chief."""
        chief = self.world.chief
        now, server = self.world.now, self.world.servers[chief.name]
        for update, priced, operands in self.updates:
            server.commit(update, priced, operands, now, now, (chief.name, chief.steps, now), None)

    def keep(self, update: Apply, priced: PricedProgram, operands: Bundle) -> None:
        """An update that travels with the reply."""
        self.updates.append((update, priced, operands))

    def unheard(self, _: Any) -> None:
        """The closure, or its reply, was lost, and nobody says so: it ends by its time-out."""
        delay_s = max(0.0, self._began_s + CALL_TIMEOUT_S - self.world.now)
        self.world.clock.after(delay_s, self._timed_out)

    def _timed_out(self, _: Any) -> None:
        if not self.replied.is_open:
            self.error = CallTimedOut(f"{self.task.name} did not reply to closure {self.number} within {CALL_TIMEOUT_S:g} s.")
            self.replied.open()


class Steps:
    """The steps of one closure, one after the other; the worker's fiber wakes only where code of users has to run between them.

    Args:
        world, task: where.
        work: what is run.
        call: the bound arguments.
        closure: whose steps they are.
    """

    def __init__(self, world: World, task: Task, work: WorkerStep, call: BoundCall, closure: ClosureCall) -> None:
        self.world = world
        self.task = task
        self.work = work
        self.call = call
        self.closure = closure
        self.left = work.repeat
        self.pause: Gate

    def run(self, linked: LinkedProgram) -> Step:
        """Take steps until none is left, or the program does not fit the next one."""
        priced = self.world.prices.of(linked)
        priced.require_memory(self.task.memory)
        runtime = SimulatedTask(self.world, self.task, priced, self.closure.keep)
        step = Step(linked, runtime, self.call.iterators, self.call.arrays, self._ended)
        self.pause = self.world.clock.gate()
        self.closure.step += 1
        try:
            step.go()
            if not step.over:
                self.world.clock.wait(self.pause, lambda: words(runtime.waits_for))
        finally:
            step.stop()
            runtime.drop_call()
        if step.error is not None:
            raise step.error
        return step

    def _ended(self, step: Step) -> bool:
        """Whether to take another step at once."""
        self.left -= 1
        if step.error is None and self.left and self.work.still_fits(step.linked, self.call):
            self.closure.step += 1
            return True
        step.over = True
        self.pause.open()
        return False


class WorkerLoop:
    """One worker, through all its incarnations.

    Args:
        world: the cluster's.
        task: the worker.
        strategy: in whose scope code of users runs.
    """

    def __init__(self, world: World, task: Task, strategy: Any) -> None:
        self.world = world
        self.task = task
        self.strategy = strategy
        self.inbox: deque[ClosureCall] = deque()
        self.mail: Gate | None = None
        self.context = TaskContext()

    def start(self, _: Task | None = None) -> None:
        """Begin the present incarnation's loop."""
        self.inbox.clear()
        self.mail = None
        self.context = self.world.context_of(self.task)
        self.context.strategies.append(self.strategy)
        fiber = self.world.start(self.task, self._loop, context=self.world.engine_context)
        fiber.finished.then(lambda _: self._ended(fiber))

    def _ended(self, fiber: Fiber) -> None:
        """The loop ends when its task dies. If it ends otherwise, the engine is wrong, and the program has to know."""
        if not fiber.killed and fiber.error is not None:
            self.world.tell_driver(fiber.error)

    def send(self, closure: ClosureCall) -> ClosureCall:
        """Send a closure from the chief."""
        self.world.routes.post(self.world.chief, self.task, self._arrived, closure, closure.unheard)
        return closure

    def _arrived(self, closure: ClosureCall) -> None:
        self.inbox.append(closure)
        if self.mail is not None:
            self.mail.open()

    def _loop(self) -> None:
        clock, task, name = self.world.clock, self.task, self.task.name
        while True:
            if not self.inbox:
                self.mail = clock.gate()
                clock.wait(self.mail, "a closure")
            closure = self.inbox.popleft()
            began = clock.env._now
            try:
                self._run(closure)
            except TaskKilled:
                raise
            except BaseException as failure:
                error = closure.error = _as_error(failure, closure.number, name)
                if debugging.is_on():
                    debugging.report(error, f"closure {closure.number}", name, task.incarnation, closure.step, clock.now)
                    clock.interrupt_driver(error)
            self.world.trace.span(name, "closure", f"closure {closure.number}", began, clock.env._now, closure=closure.number)
            self.world.routes.post(task, self.world.chief, closure.replied.open, None, closure.unheard)

    def _run(self, closure: ClosureCall) -> None:
        clock, work = self.world.clock, closure.work
        if work is None:
            assert closure.function is not None
            with clock.inside(self.context):
                self.context.locals["worker_index"] = int(self.task.name.split(":")[1])
                closure.value = closure.function(self.task)
            return
        with clock.inside(self.context):
            call = work.bind(self.task)
            linked = work.link(self.task, call)
        steps = Steps(self.world, self.task, work, call, closure)
        while True:
            closure.value = StepResult(linked, steps.run(linked).result)
            if not steps.left:
                return
            with clock.inside(self.context):
                linked = work.link(self.task, call)


def _as_error(failure: BaseException, number: int, task_name: str) -> Exception:
    """The error of a closure: its own, or where its code wanted to end the process, one that says so."""
    if isinstance(failure, Exception):
        return failure
    error = AbortedError(
        f"Closure {number} wanted to end the process of {task_name} ({failure!r}). It was not run again, as it would end the next one "
        "too; raise an ordinary exception instead."
    )
    error.__cause__ = failure
    return error
