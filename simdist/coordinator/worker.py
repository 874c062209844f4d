"""The loop of a worker: take a closure, run it, reply.

A traced step is found (or traced) for the batches that this worker's iterators have next, linked once for all workers,
and run `repeat` times. A plain function is simply called. Updates of the chief's variables travel with the reply.

The loop itself runs no code of a user and needs no context of its own; where it does (tracing, datasets, plain functions),
it goes inside the context of its incarnation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from simdist import debugging
from simdist.coordinator.per_worker import PerWorker
from simdist.data import InputContext
from simdist.errors import AbortedError, OutOfRangeError
from simdist.process_state import TaskContext
from simdist.program.function import BoundCall, StepFunction, fits_at_once
from simdist.program.values import Bundle
from simdist.runtime.interpreter import run_step
from simdist.runtime.linked import Apply, LinkedProgram
from simdist.runtime.linking import link
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.simulation.kernel import Fiber, Gate, TaskKilled
from simdist.strategies.base import Strategy

__all__ = ["Reply", "WorkerLoop"]


@dataclass
class Reply:
    """What a worker sends back."""

    worker: str
    closure: int
    bundle: Bundle | None = None
    rebuild: Callable[[list[Any]], Any] | None = None
    plain: Any = None
    error: BaseException | None = None
    step: int = 0  # of its closure, from 1 on, that ran last
    updates: list[tuple[Apply, Bundle]] = field(default_factory=list[tuple[Apply, Bundle]])

    def commit(self, chief: SimulatedTask) -> None:
        """Apply what travelled with the reply."""
        for part, bundle in self.updates:
            now = chief.clock.now
            chief.commit(chief.task, part, bundle, now, now)


class WorkerLoop:
    """One worker, through all its incarnations."""

    def __init__(self, strategy: Strategy, task: Task, replied: Callable[[Reply], None]) -> None:
        self.strategy = strategy
        self.runtime = strategy.runtime
        self.task = task
        self.replied = replied
        self.inbox: deque[tuple[int, Any]] = deque()
        self.mail: Gate | None = None
        self.context = TaskContext()

    def start(self) -> None:
        """Begin the present incarnation's loop."""
        self.inbox.clear()
        self.mail = None
        self.context = self.runtime.context_of(self.task)
        self.context.strategies.append(self.strategy)
        fiber = self.runtime.start(self.task, self._loop, context=self.runtime.engine_context)
        fiber.finished.then(lambda _: self._ended(fiber))

    def _ended(self, fiber: Fiber) -> None:
        """The loop ends when its task dies. If it ends otherwise, the engine is wrong, and the program has to know."""
        if not fiber.killed and fiber.error is not None:
            self.runtime.tell_driver(fiber.error)

    def send(self, number: int, closure: Any) -> None:
        """Send a closure from the chief."""
        self.runtime.send(self.runtime.chief, self.task, 0, self._arrived, (number, closure))

    def _arrived(self, work: tuple[int, Any]) -> None:
        self.inbox.append(work)
        if self.mail is not None:
            self.mail.open()

    def _loop(self) -> None:
        clock, task = self.runtime.clock, self.task
        while True:
            if not self.inbox:
                self.mail = clock.gate()
                clock.wait(self.mail, "a closure")
            number, closure = self.inbox.popleft()
            began = clock.now
            reply = Reply(task.name, number)
            try:
                self._run(closure, reply)
            except TaskKilled:
                raise
            except BaseException as failure:
                error = reply.error = _as_error(failure, number, task.name)
                if debugging.is_on():
                    debugging.report(error, f"closure {number}", task.name, task.incarnation, reply.step, clock.now)
                    clock.interrupt_driver(error)
            self.runtime.trace.span(task.name, "closure", f"closure {number}", began, clock.now, closure=number)
            self.runtime.send(task, self.runtime.chief, 0, self.replied, reply)

    def _run(self, closure: Any, reply: Reply) -> None:
        fn = closure.fn
        if not isinstance(fn, StepFunction):
            with self.runtime.clock.inside(self.context):
                args, kwargs = jax.tree_util.tree_map(self._resolve, (closure.args, closure.kwargs))
                self.context.locals["worker_index"] = int(self.task.name.split(":")[1])
                reply.plain = fn(*args, **kwargs)
            return
        with self.runtime.clock.inside(self.context):
            call = fn.bind(closure.args, closure.kwargs, self._resolve)
        task = SimulatedTask(self.runtime, self.task, lambda part, bundle: reply.updates.append((part, bundle)))
        linked, layout = None, self.strategy.store.layout
        for step in range(closure.repeat):
            reply.step = step + 1
            if linked is None or linked.version != layout.version or not fits_at_once(linked.program, call):
                with self.runtime.clock.inside(self.context):
                    linked = self._linked(fn, call)
            reply.bundle, reply.rebuild = run_step(linked, task, call.iterators, call.arrays), linked.rebuild

    def _resolve(self, leaf: Any) -> Any:
        if not isinstance(leaf, PerWorker):
            return leaf
        workers: list[str] = self.strategy.workers  # pyright: ignore[reportAttributeAccessIssue]
        context = InputContext(len(workers), workers.index(self.task.name), self.strategy.num_replicas_in_sync)
        return leaf.on(self.task, context)

    def _linked(self, fn: StepFunction, call: BoundCall) -> LinkedProgram:
        """The program of the next step, linked: once for all workers, again when the layout of the variables has changed."""
        try:
            program = fn.program(call, context=id(self.strategy))
        except StopIteration:
            raise OutOfRangeError(
                f"The dataset of {self.task.name} has run out after {self.task.steps} steps. Schedule fewer steps, or end the dataset "
                "with .repeat()."
            ) from None
        known: dict[int, LinkedProgram] = self.strategy.__dict__.setdefault("linked", {})
        linked = known.get(id(program))
        if linked is None or linked.version != self.strategy.store.layout.version:
            linked = known[id(program)] = link(program, self.strategy.store.layout, self.runtime.ledger)
        linked.require_memory(self.task.memory)
        return linked


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
