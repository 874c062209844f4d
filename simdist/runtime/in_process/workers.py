"""Workers without a clock: a closure has run when `call` returns, and its reply is there."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from simdist import debugging
from simdist.errors import AbortedError, FailedPreconditionError
from simdist.interrupts import noted_interrupts
from simdist.jax_settings import open_settings, opened
from simdist.process_state import TaskContext, active_context
from simdist.program.function import BoundCall
from simdist.program.kernels import Kernel
from simdist.program.scope import Scope, open_scopes
from simdist.program.values import Bundle
from simdist.randomness import keras_seeds
from simdist.runtime.in_process.programs import OneTask, TaskHere, Updates, kept_updates, raise_error
from simdist.runtime.in_process.worker_replicas import InProcess, step_of_replicas
from simdist.runtime.interpreter import Step
from simdist.runtime.serving import NOT_IN_ROUNDS, Round, Ticket
from simdist.runtime.work import LinkedStep, PlainFunction, StepCall, StepResult, TakeStep, WorkerStep
from simdist.runtime.worker_replicas import LinkedReplicas, LocalReplicas, ReplicaCalls

__all__ = ["Workers", "WorkersHere"]


class Chief(Protocol):
    """What workers need of the engine that they belong to."""

    seed: int

    def require_usable(self, what: str) -> None:
        """See `Engine.require_usable`."""
        ...

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, of its arrays and the given ones."""
        ...


class Reply:
    """What came of a closure, as `Handle`: it is there from the beginning.

    Attributes:
        updates: of the chief's variables, which count if the reply is accepted.
        noted: Ctrl-C while it ran; it counts when the reply has been taken, so that no closure is left half done.
    """

    def __init__(self, chief: Chief) -> None:
        self.chief = chief
        self.updates = kept_updates()
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
        for part, given in self.updates.all:
            self.chief.change(part.group, part.kernel, given, f" of {part.task}")


class Workers(ABC):
    """As `WorkerPool`.

    Args:
        chief: their engine.
        tasks: the workers.
        strategy: in whose scope code of users runs.
    """

    def __init__(self, chief: Chief, tasks: Sequence[TaskHere], strategy: Scope) -> None:
        self.chief = chief
        self._tasks = {task.name: task for task in tasks}
        process = active_context().process  # of the program that gives them closures
        self._contexts = {task.name: TaskContext(process, seeds=keras_seeds(chief.seed, task.name, 0)) for task in tasks}
        for context in self._contexts.values():
            open_scopes.get(context).append(strategy)

    @abstractmethod
    def take(self, task: TaskHere, linked: LinkedStep, call: StepCall, updates: Updates) -> tuple[Bundle, ...]:
        """Let a worker take a step; what it changes of the chief's variables is added to `updates`. The result of each replica."""

    @abstractmethod
    def do(self, task: TaskHere, function: PlainFunction, take: TakeStep) -> Any:
        """Let a worker call a plain function."""

    def call(self, task: str, step: WorkerStep, number: int, ticket: Ticket = NOT_IN_ROUNDS) -> Reply:
        return self._reply(task, number, lambda worker, updates: self._taken(worker, step, updates))

    def call_function(
        self, task: str, function: PlainFunction, number: int, ticket: Ticket = NOT_IN_ROUNDS, argument_bytes: int = 0
    ) -> Reply:
        return self._reply(task, number, lambda worker, updates: self.do(worker, function, lambda step: self._taken(worker, step, updates)))

    def _taken(self, worker: TaskHere, step: WorkerStep, updates: Updates) -> StepResult:
        """The result of a step, the last of `repeat`, that a worker takes now."""
        call, before = step.bind(worker), list[StepResult]()
        for left in reversed(range(step.repeat)):
            linked = step.link(worker, call)
            result = self.take(worker, linked, call, updates)
            programs = linked.programs if isinstance(linked, LinkedReplicas) else (linked,)
            if left and step.keeps_each:
                before.append(StepResult(programs, result))
        return StepResult(programs, result, tuple(before))  # pyright: ignore[reportPossiblyUnboundVariable]

    def add(self, task: str) -> NoReturn:
        raise AssertionError(f"{task}: the tasks of this engine are fixed")

    def remove(self, task: str) -> NoReturn:
        raise FailedPreconditionError(
            f"{task} cannot leave: the tasks of this cluster are there from beginning to end. Workers come and go in "
            "sd.Cluster(..., engine='simulated')."
        )

    def abandon(self, task: str) -> NoReturn:
        raise AssertionError(f"{task}: a closure has run when it was sent")

    def apply_round(self, complete: Round) -> NoReturn:
        raise AssertionError(f"round {complete.clock}: `start_workers` refuses rounds")

    def awaits_servers(self) -> bool:
        return False  # nothing dies here

    def _reply(self, name: str, number: int, work: Callable[[TaskHere, Updates], Any]) -> Reply:
        """Do the work of a closure in the context of its worker, with JAX's settings of the caller: here its numbers are computed."""
        self.chief.require_usable(f"Closure {number} was to run")
        reply, task = Reply(self.chief), self._tasks[name]
        before, settings = task.steps, open_settings()
        with noted_interrupts(reply.noted), inside(self._contexts[name]), opened(settings):
            try:
                reply.value = work(task, reply.updates)
            except Exception as error:
                reply.error = error
            except BaseException as wish:
                reply.error = AbortedError(
                    f"Closure {number} wanted to end the process of {name} ({wish!r}), which is this one. Raise an ordinary exception."
                )
                reply.error.__cause__ = wish
        if reply.error is not None:
            debugging.report(reply.error, f"closure {number}", name, 0, task.steps - before + 1, 0.0)
        return reply


class WorkersHere(Workers):
    """Workers that share the memory of the driver.

    Args:
        common: what all tasks share.
        tasks, strategy: as of `Workers`.
        local: the replicas of each; None: it is one.
    """

    def __init__(self, common: InProcess, tasks: Sequence[TaskHere], strategy: Any, local: LocalReplicas | None = None) -> None:
        super().__init__(common, tasks, strategy)
        self.common = common
        self.local = local

    def take(self, task: TaskHere, linked: LinkedStep, call: StepCall, updates: Updates) -> tuple[Bundle, ...]:
        if isinstance(linked, LinkedReplicas):
            assert isinstance(call, ReplicaCalls) and self.local is not None
            return step_of_replicas(self.common, task, self.local, linked, call, updates)
        assert isinstance(call, BoundCall)
        step = Step(linked, OneTask(self.common, task, updates), call.iterators, call.arrays, raise_error)
        step.go()
        return (step.result,)

    def do(self, task: TaskHere, function: PlainFunction, take: TakeStep) -> Any:
        return function(task, take)


@contextmanager
def inside(context: TaskContext) -> Iterator[None]:
    """Run code of users in the context of a worker."""
    outer = active_context()
    context.replace(outer)
    try:
        yield
    finally:
        outer.replace(active_context())
