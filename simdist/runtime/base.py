"""The wall between strategies and what they run on.

Above it are strategies, coordinator and trainer, which know no clock, no network and no fiber. Behind it are engines, which know no
strategy. A driver (the notebook, or a launched main) reaches tasks through an `Engine`; a program on a task reads, computes, updates
and meets other replicas through a `TaskRuntime`; and nothing else passes.

An operation of a linked program starts itself: the method of `TaskRuntime` returns its result, or `PENDING`, and calls `step.go(result)`
later. Only code of users may block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, Protocol

from simdist.collectives.base import Schedule
from simdist.hardware import Device, MemoryAccount, Network
from simdist.program.exchange import Exchange
from simdist.program.function import BoundCall
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.linked import ApplyAll, CheckFinite, LinkedProgram, Meeting, ReadGroups, Run
from simdist.runtime.membership import Decision
from simdist.trace import Trace
from simdist.variables.state import GroupVersions

__all__ = [
    "PENDING",
    "Communication",
    "Engine",
    "Handle",
    "LaunchedRun",
    "Member",
    "Pending",
    "Process",
    "Promise",
    "ReplicaGroup",
    "StepInProgress",
    "StepResult",
    "TaskRuntime",
    "Way",
    "Worker",
    "WorkerStep",
]


class Pending(Enum):
    """What an operation returns that has begun, and will call `step.go` when it is done."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING
Later = Literal[Pending.PENDING]


class StepInProgress(Protocol):
    """A step as its task runtime sees it (`simdist.runtime.interpreter.Step`).

    Attributes:
        over: whether it does nothing any more.
    """

    over: bool

    def go(self, result: Any = None) -> None:
        """Go on with the result of the operation that was pending."""
        ...

    def fail(self, error: BaseException) -> None:
        """The operation that was pending has failed, and the step with it."""
        ...


class TaskRuntime(Protocol):
    """What a program can ask of the task that runs it.

    Attributes:
        step: the step that runs now; whoever returned `PENDING` calls its `go` or `fail`, once.
    """

    step: StepInProgress

    def next_batch(self, iterator: Any) -> Any:
        """The next batch of an iterator of this task, or `PENDING`; `OutOfRangeError` at its end."""
        ...

    def random_key(self, salt: int) -> Any:
        """Two uint32 that depend on the seed, the task, its step and `salt`."""
        ...

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        """The present versions of groups, wherever they live."""
        ...

    def compute(self, op: Run, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle] | Later:
        """Call a kernel on this task's device."""
        ...

    def collective(self, op: Meeting, operands: Bundle) -> Bundle | Later:
        """Exchange arrays with the other replicas of the step; done when this replica has what it gets."""
        ...

    def update(self, op: ApplyAll, operands: Sequence[Bundle]) -> Later | None:
        """Change groups, wherever they live; done when all of them have confirmed."""
        ...

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        """Stop with `InvalidArgumentError` when a value is not finite."""
        ...

    def step_done(self) -> None:
        """One step of the program is over."""
        ...


# -- the driver's half ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepResult:
    """What a step gives: a bundle, and the program that says how to put it back together."""

    linked: LinkedProgram
    bundle: Bundle


class Handle(Protocol):
    """What was asked of a task, and what comes of it."""

    @property
    def error(self) -> BaseException | None:
        """Why it failed; None where it did not, or has not ended."""
        ...

    @property
    def value(self) -> Any:
        """What a function returned; of a step its last `StepResult`."""
        ...

    def wait(self) -> Any:
        """Block until there is a reply; the value, or its error is raised."""
        ...

    def then(self, replied: Callable[[], None]) -> None:
        """Call a function when the reply has come; at once if it has."""
        ...

    def accept(self) -> None:
        """The reply counts: apply the updates of the chief's variables that travelled with it."""
        ...


class Promise(Protocol):
    """Something that happens once, and that a driver can wait for."""

    @property
    def is_open(self) -> bool: ...
    def open(self, value: Any = None) -> None: ...
    def wait(self, what: str) -> Any: ...


class Process(Protocol):
    """One incarnation of a task, as whoever depends on it remembers it."""

    @property
    def alive(self) -> bool: ...
    @property
    def incarnation(self) -> int: ...


class Worker(Protocol):
    """A task as the code that runs on it knows it.

    Attributes:
        name: of the task.
        steps: that it has taken, in all its incarnations.
        local: what this incarnation keeps in its memory: datasets, iterators, resources.
    """

    name: str
    steps: int
    local: dict[Any, Any]


class WorkerStep(Protocol):
    """A step that a worker takes for the coordinator. `bind` and `link` run code of users, in the worker's process.

    Attributes:
        repeat: how often it is taken.
    """

    repeat: int

    def ready(self, worker: Worker) -> tuple[BoundCall, LinkedProgram] | None:
        """The arguments and the program, where they are known from before and fit; must not run code of users."""
        ...

    def bind(self, worker: Worker) -> BoundCall:
        """The arguments, on this worker."""
        ...

    def link(self, worker: Worker, call: BoundCall) -> LinkedProgram:
        """The linked program for the batches that come next."""
        ...

    def still_fits(self, linked: LinkedProgram, call: BoundCall) -> bool:
        """Whether the same program can be run once more; must not run code of users."""
        ...


@dataclass(frozen=True)
class Member:
    """A replica as the others know it: its rank, its task, the device that it computes on, and the incarnation that it joined with.

    A task that was started again is another one for the group: it has lost what the member had.
    """

    rank: int
    task: str
    place: str
    process: Process

    @property
    def alive(self) -> bool:
        """Whether the incarnation that joined is still up."""
        return self.process.alive


@dataclass(frozen=True)
class Way:
    """How some replicas carry out an exchange.

    Args:
        algorithm: its name, for people.
        schedule: whose order of additions the numbers have.
        travel: the schedule of the bytes; as a rule the same.
        places: the devices of its ranks: those of the replicas, and perhaps one more that only passes on.
        alike: other places, for which it takes equally long; empty where there are none.
    """

    algorithm: str
    schedule: Schedule
    travel: Schedule
    places: tuple[str, ...]
    alike: tuple[str, ...] = ()


class Communication(Protocol):
    """What a strategy says about exchanges.

    Attributes:
        timeout_s: how long the first to come waits for the last; None for ever.
        spare: how many of the replicas a step does not wait for.
    """

    timeout_s: float | None
    spare: int

    def way(self, exchange: Exchange, places: tuple[str, ...]) -> Way:
        """How the replicas at these places do it."""
        ...


class ReplicaGroup(Protocol):
    """Replicas that take steps together, those of one driver or of several launched mains."""

    def run(
        self, members: Sequence[Member], local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]
    ) -> list[Bundle]:
        """Take one step; block until it is over for all replicas that are driven here.

        Args:
            members: all replicas, by rank.
            local: those that this driver drives.
            linked, calls: of each of these its program and its arguments.

        Returns:
            The result of each local replica; of one that was dropped, that of another.

        Raises:
            UnavailableError: the task of a replica has died; the step has left no mark.
        """
        ...


class LaunchedRun(Protocol):
    """Mains on tasks, one each.

    Attributes:
        results: what the mains returned, by task.
        restarts: how often each main was started again.
    """

    results: dict[str, Any]
    restarts: dict[str, int]

    def join(self) -> None:
        """Wait for all mains; raise the first error that was not followed by a restart."""
        ...


class Engine(Protocol):
    """What strategies and coordinator run on: tasks with devices, their variables, and ways to give them work.

    Attributes:
        seed: of all random streams.
        network: that joins the tasks.
        trace: what has happened.
        numerics: how numbers are computed; "off": not at all.
        chief: the name of the task that the notebook runs on.
        task_names: of all tasks, the chief first.
        versions: the values of all variables.
    """

    seed: int
    network: Network
    trace: Trace
    numerics: str
    chief: str

    @property
    def now(self) -> float: ...
    @property
    def versions(self) -> GroupVersions: ...
    @property
    def task_names(self) -> Sequence[str]: ...

    # -- tasks and devices

    def process(self, task: str) -> Process:
        """The present incarnation of a task."""
        ...

    def steps_of(self, task: str) -> int:
        """Steps that a task has taken, in all its incarnations."""
        ...

    def add_device(self, place: str, device: Device | None = None) -> None:
        """A device of a task (``worker:0/gpu:1``), if it is not there yet; by default like the task's own."""
        ...

    def memory(self, place: str) -> MemoryAccount:
        """Who holds the memory of a device."""
        ...

    def path_figures(self, source: str, target: str) -> tuple[float, float]:
        """Latency in seconds and bandwidth in bytes/s between two tasks or devices."""
        ...

    def copy(self, source: str, target: str, size_bytes: int, what: str) -> None:
        """Block until bytes have come from one device to another.

        Raises:
            UnavailableError: one of the two died on the way.
        """
        ...

    def subscribe(self, tasks: Sequence[str], changed: Callable[[Decision], None]) -> None:
        """Watch tasks; tell each change of what the chief believes of them."""
        ...

    def is_believed_up(self, task: str) -> bool:
        """What the chief believes of a task."""
        ...

    def notice(self, member: Member, reason: str) -> None:
        """Those who train with a member have learned of its death."""
        ...

    # -- variables

    def read(self, groups: Sequence[int]) -> list[tuple[Any, ...]]:
        """The arrays of groups now, computed in one go; takes no time.

        Raises:
            UnavailableError: a task that held one of them has died.
        """
        ...

    def assign(self, group: int, kernel: Kernel, operand: Any, what: str) -> None:
        """Change a group at once, in no time: a kernel of its arrays and the operand gives its next version."""
        ...

    def arrays(self, bundles: Sequence[Bundle]) -> list[tuple[Any, ...]]:
        """The numbers of results, computed now if nobody has asked before."""
        ...

    # -- work

    def start_workers(self, tasks: Sequence[str], strategy: Any) -> None:
        """Let tasks take calls, now and after each restart; code of users runs there in the scope of the strategy."""
        ...

    def call(self, task: str, step: WorkerStep, number: int) -> Handle:
        """Let a worker take a step, as closure `number`."""
        ...

    def call_function(self, task: str, function: Callable[[Worker], Any], number: int) -> Handle:
        """Let a worker call a plain function in its process, as closure `number`."""
        ...

    def replica_group(self, communication: Communication) -> ReplicaGroup:
        """A group of replicas that one driver drives."""
        ...

    def join_group(self, communication: Communication, members: Sequence[Member], task: str) -> ReplicaGroup:
        """The group in which the main of a task meets the mains of the others."""
        ...

    def launch(
        self, cluster: Any, main: Callable[[], Any], tasks: Sequence[str], environ: Callable[[str], dict[str, str]], restart: str
    ) -> LaunchedRun:
        """Run a main on each of these tasks, in this cluster and with these variables of its environment; see `Cluster.launch`.

        Raises:
            FailedPreconditionError: this engine cannot.
        """
        ...

    # -- waiting

    def promise(self) -> Promise:
        """Something to wait for."""
        ...

    def require_usable(self, what: str) -> None:
        """Refuse a call from another thread, or after the engine was closed.

        Raises:
            FailedPreconditionError: it is one.
        """
        ...

    def sleep(self, seconds: float) -> None:
        """Block the caller for so many seconds of the engine's time."""
        ...

    def close(self) -> None:
        """End all tasks."""
        ...
