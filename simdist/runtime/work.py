"""Work for tasks: the protocols of steps, functions and mains, and of their results.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from simdist.process_state import TaskLocal
from simdist.program.arrays import Array, HostArray, Tree
from simdist.program.function import BoundCall, StepFunction
from simdist.program.operations import Update, VariableHandle
from simdist.program.per_replica import per_replica
from simdist.program.values import Bundle, num_bytes
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.serving import NOT_IN_ROUNDS, Round, Ticket
from simdist.runtime.worker_replicas import LinkedReplicas, ReplicaCalls
from simdist.trace import Trace

__all__ = [
    "Drawn",
    "Handle",
    "LaunchedRun",
    "LinkedStep",
    "PlainFunction",
    "Returned",
    "RunningClosure",
    "StepCall",
    "StepResult",
    "TakeStep",
    "Worker",
    "WorkerPool",
    "WorkerStep",
    "running_closure",
]

Returned: TypeAlias = Any
"""What code of users has returned: anything."""


Drawn: TypeAlias = tuple[str, int]
"""What the random numbers of a step follow from: the worker that took it first, and how many of its steps had drawn some before."""
StepCall: TypeAlias = BoundCall | ReplicaCalls
"""The arguments of a step: of the only replica of a worker, or of all its replicas."""
LinkedStep: TypeAlias = LinkedProgram | LinkedReplicas
"""The program of a step: of the only replica of a worker, or of all its replicas."""


class Computing(Protocol):
    """What computes the arrays of results, and notes that they were read."""

    trace: Trace

    def arrays(self, bundles: Sequence[Bundle]) -> Sequence[Sequence[Array]]: ...


class Worker(Protocol):
    """A worker, as the code that runs on it sees it.

    Attributes:
        name: of the task.
        steps: that it has taken, in all its incarnations.
        local: what this incarnation keeps in its memory: datasets, iterators, resources.
    """

    name: str
    steps: int
    local: dict[Hashable, Any]


class WorkerStep(Protocol):
    """A step that a worker takes for the coordinator. `bind` and `link` run code of users, in the worker's process. On a worker with
    several replicas they give the arguments and the programs of all of them.

    Attributes:
        repeat: how often it is taken.
        keeps_each: whether the results of all these steps are kept, and not only that of the last one.
        drawn: what the random numbers of each of these steps, from 1 on, have followed from when it was first taken.
        argument_bytes: of the arrays among its arguments, which travel to the worker.
    """

    repeat: int
    keeps_each: bool
    drawn: dict[int, Drawn]
    argument_bytes: int

    def ready(self, worker: Worker) -> tuple[StepCall, LinkedStep] | None:
        """The arguments and the program, where they are known from before and fit. An engine may ask, to spare the worker; no code of
        users may run."""
        ...

    def bind(self, worker: Worker) -> StepCall:
        """The arguments, on this worker."""
        ...

    def link(self, worker: Worker, call: StepCall) -> LinkedStep:
        """The linked program for the batches that come next."""
        ...

    def still_fits(self, linked: LinkedStep, call: StepCall) -> bool:
        """Whether the same program can be run once more. An engine may ask, to spare the worker; no code of users may run."""
        ...


@dataclass(frozen=True)
class StepResult:
    """The result of a step: of each replica a bundle, and the program that says how to put it back together.

    Attributes:
        before: the results of the steps before it in the closure, where that keeps them.
    """

    linked: tuple[LinkedProgram, ...]
    bundles: tuple[Bundle, ...]
    before: tuple[StepResult, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of all these results."""
        return sum([num_bytes(bundle.avals) for bundle in self.bundles]) + sum([before.size_bytes for before in self.before])

    def changed(self) -> list[VariableHandle]:
        """The variables that the step has changed."""
        updates = [op for op in self.linked[0].program.operations if isinstance(op, Update)]
        return [variable for update in updates for variable in update.variables]

    def value(self, engine: Computing) -> Returned:
        """What the step has returned, with numpy arrays: of several replicas as one value, with a `PerReplica` where they differ."""
        arrays = [[_read_only(array) for array in of_one] for of_one in engine.arrays(self.bundles)]
        if any(arrays):
            engine.trace.observed()
        results = [linked.rebuild(list[Array](of_one)) for linked, of_one in zip(self.linked, arrays, strict=True)]
        return results[0] if len(results) == 1 else per_replica(results)


def _read_only(array: Array) -> HostArray:
    """The numbers of an array, which its reader cannot change: the engine may still hold them."""
    host = np.asarray(array)
    host.setflags(write=False)
    return host


TakeStep: TypeAlias = Callable[[WorkerStep], StepResult]
"""Lets the worker take a step in the middle of a plain function, which waits for its result. Taken once, whatever `repeat` says."""
PlainFunction: TypeAlias = Callable[[Worker, TakeStep], Returned]
"""What a worker calls in its process, as a closure."""


@dataclass(frozen=True)
class RunningClosure:
    """The closure that code of a user runs in.

    Attributes:
        number, worker: its number and its worker.
        strategy, engine: whose it is, and on which engine.
        take_step: lets the worker take a step now, of (function, args, kwargs), and gives its values; None: no plain function runs.
        changed: what the steps of a plain function have changed that counts with the closure's reply, and is not seen before.
    """

    number: int
    worker: str
    strategy: object
    engine: object
    take_step: Callable[[StepFunction, Sequence[Tree], dict[str, Tree]], Tree] | None = None
    changed: list[VariableHandle] = field(default_factory=list["VariableHandle"])

    @property
    def is_plain(self) -> bool:
        """Whether a plain function runs."""
        return self.take_step is not None


running_closure: TaskLocal[RunningClosure | None] = TaskLocal(lambda: None)
"""The closure that runs now; None outside of closures."""


class Handle(Protocol):
    """The handle of some work on a task, and of its result."""

    @property
    def error(self) -> BaseException | None:
        """The error with which it failed; None if it did not, or has not ended."""
        ...

    @property
    def value(self) -> Returned:
        """What a function returned; of a step its last `StepResult`."""
        ...

    def wait(self) -> Returned:
        """Block until there is a reply; the value, or its error is raised."""
        ...

    def then(self, replied: Callable[[], None]) -> None:
        """Call a function when the reply has come; at once if it has."""
        ...

    def accept(self) -> None:
        """Accept the reply: apply the updates of the chief's variables that travelled with it."""
        ...


class WorkerPool(Protocol):
    """The workers that run the closures of one coordinator."""

    def call(self, task: str, step: WorkerStep, number: int, ticket: Ticket = NOT_IN_ROUNDS) -> Handle:
        """Run a step on a worker, as closure `number`; its messages to servers carry the ticket."""
        ...

    def call_function(
        self, task: str, function: PlainFunction, number: int, ticket: Ticket = NOT_IN_ROUNDS, argument_bytes: int = 0
    ) -> Handle:
        """Run a plain function in a worker's process, as closure `number`; steps that it takes are steps of this closure."""
        ...

    def add(self, task: str) -> None:
        """Start a worker on one more task."""
        ...

    def remove(self, task: str) -> None:
        """Tell a worker to end: what it was sent counts no more, and its task leaves the cluster unless others use it."""
        ...

    def abandon(self, task: str) -> None:
        """Tell a worker to stop what it was sent: it counts no more."""
        ...

    def apply_round(self, complete: Round) -> Handle:
        """Let all servers apply the updates of a round; there is a reply when all have."""
        ...

    def awaits_servers(self) -> bool:
        """Whether a server is down, or gets back what it held, that will be back."""
        ...


class LaunchedRun(Protocol):
    """Mains on tasks, one each.

    Attributes:
        results: what the mains returned, by task.
        restarts: how often each main was started again.
    """

    results: dict[str, Returned]
    restarts: dict[str, int]

    def join(self) -> None:
        """Wait for all mains that have an end; raise the first error that was not followed by a restart.

        Mains in `Server.join` end with the last one that is not. An evaluator is awaited only where no other task was launched with it.
        """
        ...
