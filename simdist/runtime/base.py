"""The wall between strategies and what they run on.

Above it are strategies, coordinator and trainer, which know no clock, no network and no fiber. Behind it are engines, which know no
strategy. A driver (the notebook, or a launched main) reaches tasks through an `Engine`; a program on a task reads, computes, updates
and takes part in collectives through a `TaskRuntime`. Nothing else passes.

An operation of a linked program starts itself: the method of `TaskRuntime` returns its result, or `PENDING`, and calls `step.go(result)`
later. Only code of users may block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Literal, Protocol, TypeAlias

from simdist.hardware import MemoryAccount, Network
from simdist.program.arrays import Array, Arrays
from simdist.program.row_numbers import RowNumbers
from simdist.program.scope import Scope
from simdist.program.step_iterator import StepBatch, StepIterator
from simdist.program.values import Bundle
from simdist.runtime.delivery import Delivery
from simdist.runtime.directories import Directories
from simdist.runtime.linked import ApplyAll, CheckFinite, LinkedCollective, LinkedProgram, ReadGroups, ReadWithRows, RunKernel
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.membership import MemberDecision
from simdist.runtime.replicas import Communication, Member, Process, ReplicaGroup
from simdist.runtime.serving import ASYNCHRONOUS, Serving
from simdist.runtime.storage import TaskDisk
from simdist.runtime.unfinished import Unfinished
from simdist.runtime.updating import Assignment
from simdist.runtime.work import LaunchedRun, Returned, WorkerPool
from simdist.runtime.worker_replicas import LocalReplicas
from simdist.trace import Trace
from simdist.variables.layout import GroupVersions
from simdist.variables.state import Cell
from simdist.variables.traffic import CellTraffic

__all__ = ["PENDING", "Engine", "Later", "OperationResult", "Pending", "Promise", "StepInProgress", "TaskRuntime"]


class Pending(Enum):
    """The result of an operation that has begun and is not done; it calls `step.go` later."""

    PENDING = "pending"


OperationResult: TypeAlias = Any
"""What the method of an operation returned: of `read` and `compute` bundles, of `collective` one, of `next_batch` a batch."""

PENDING: Final = Pending.PENDING
Later = Literal[Pending.PENDING]


class StepInProgress(Protocol):
    """A step as its task runtime sees it (`simdist.runtime.interpreter.Step`).

    Attributes:
        over: whether it does nothing any more.
    """

    over: bool

    def go(self, result: OperationResult = None) -> None:
        """Go on with the result of the operation that was pending."""
        ...

    def fail(self, error: BaseException) -> None:
        """End the step with the error of the operation that was pending."""
        ...


class TaskRuntime(Protocol):
    """The task's half of the wall: the operations that a program can run on its task.

    Attributes:
        step: the step that runs now; an operation that returned `PENDING` calls its `go` or `fail`, once.
    """

    step: StepInProgress

    def next_batch(self, iterator: StepIterator) -> StepBatch | Later:
        """The next batch of an iterator of this task, or `PENDING`; `OutOfRangeError` at its end."""
        ...

    def random_key(self, salt: int) -> Array:
        """Two uint32 that depend on the seed, the task, its step and `salt`."""
        ...

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        """The present versions of groups, wherever they live."""
        ...

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        """The present versions of groups, and some rows of the present versions of tables, wherever they live."""
        ...

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: StepBatch | None, host: Arrays) -> Sequence[Bundle] | Later:
        """Call a kernel on this task's device."""
        ...

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        """Run a collective with the other replicas of the step; done when this replica has its result."""
        ...

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        """Change groups, wherever they live; done when all of them have confirmed."""
        ...

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        """Raise `InvalidArgumentError` in the step when a value is not finite."""
        ...

    def step_done(self) -> None:
        """Note that one step of the program is over."""
        ...


# -- the driver's half ---------------------------------------------------------------------------------------------------


class Promise(Protocol):
    """An event that happens once, and for which a driver can wait."""

    @property
    def is_open(self) -> bool: ...
    def open(self, value: object = None) -> None: ...
    def wait(self, what: str | Callable[[], str]) -> Returned: ...


class Engine(Protocol):
    """The driver's half of the wall: tasks with devices and variables, and methods that give them work.

    Attributes:
        seed: of all random streams.
        network: that joins the tasks.
        trace: what has happened.
        numerics: how numbers are computed; "off": not at all.
        chief: the name of the task that the notebook runs on.
        task_names: of all tasks, the chief first.
        versions: the values of all variables.
        unfinished: what was begun beside the program, and is not over, or has failed and nobody has asked.
        directories: the real ones, on the disks of tasks and on storage that all share.
    """

    seed: int
    unfinished: list[Unfinished]
    directories: Directories
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
        """The number of steps that a task has taken, in all its incarnations."""
        ...

    def draws_of(self, task: str) -> int:
        """The number of steps of a task that drew random numbers: each of them has numbers of its own."""
        ...

    def set_draws(self, task: str, draws: int) -> None:
        """Let the next step of a task draw the numbers that it drew after so many."""
        ...

    def add_task(self, job: str) -> str:
        """Start one more task of a job, with a device as the others of it have; its name. It registers at the chief by a message.

        Raises:
            FailedPreconditionError: the tasks of this engine are fixed.
            InvalidArgumentError: there is no task of this job, or the network has no place for another.
        """
        ...

    def add_device(self, device: str) -> None:
        """Add a device to a task (``worker:0/gpu:1``), a copy of the task's own, unless it exists already."""
        ...

    def memory(self, device: str) -> MemoryAccount:
        """The memory of a device: bytes by owner."""
        ...

    def path_figures(self, source: str, target: str) -> tuple[float, float]:
        """Latency in seconds and bandwidth in bytes/s between two tasks or devices."""
        ...

    def deliver(self, deliveries: Sequence[Delivery], what: str, category: str) -> None:
        """Send bytes from devices to others, side by side; block until all have arrived, each of which is recorded on the target's lane.

        Args:
            deliveries: that are sent; there may be none.
            what: is sent, in words.
            category: of the records, after which comes what the calling program does next.

        Raises:
            UnavailableError: a source or target is down or died on the way; the others are given up.
        """
        ...

    def disk(self, task: str) -> TaskDisk:
        """The disk of a task.

        Raises:
            InvalidArgumentError: there is no such task.
        """
        ...

    def preempted_at(self, task: str) -> float | None:
        """The second at which a task is killed and its machine given back; None where it has no notice of that."""
        ...

    def watch_preemption(self, task: str, noticed: Callable[[float], object]) -> None:
        """Call a function, which may not block, with that second at each later notice that a task gets."""
        ...

    def subscribe(self, tasks: Sequence[str], changed: Callable[[MemberDecision], None]) -> None:
        """Watch tasks; tell each change of what the chief believes of them, the first of all that they are up."""
        ...

    def is_believed_up(self, task: str) -> bool:
        """The chief's belief about a task that is watched: whether it is up."""
        ...

    def notice(self, member: Member, reason: str) -> None:
        """Note that the peers of a member have detected its death."""
        ...

    # -- variables

    def read(self, groups: Sequence[int]) -> list[Arrays]:
        """The present arrays of groups, computed together; takes no time.

        Raises:
            UnavailableError: a task that held one of them has died.
        """
        ...

    def require_present(self, groups: Sequence[int]) -> None:
        """Refuse to change groups of which one has no value now.

        Raises:
            UnavailableError: a task that held one of them has died.
        """
        ...

    def assign(self, groups: Sequence[int], change: Assignment, operand: Array, what: str) -> None:
        """Change a cell of groups of one type at once, in no time."""
        ...

    def traffic(self, cells: Sequence[Cell]) -> list[CellTraffic]:
        """What has travelled for each of these cells between the tasks that hold them and those whose steps use them.

        Raises:
            FailedPreconditionError: nothing travels here.
        """
        ...

    def arrays(self, bundles: Sequence[Bundle]) -> list[Arrays]:
        """The arrays of results, computed now unless they are known."""
        ...

    # -- work

    def closure_figures(self, linked: LinkedProgram, task: str, batches: Sequence[StepBatch] = ()) -> tuple[float, float]:
        """A forecast for a worker: seconds of one step of a program, and seconds that the messages of its closure take.

        Args:
            batches: of a step, which say the rows of tables that it asks for; without them it asks for as many as it has ids.
        """
        ...

    def require_serving(self, serving: Serving) -> None:
        """Refuse what servers would have to do for workers, where this engine cannot.

        Raises:
            FailedPreconditionError: this engine cannot.
        """
        ...

    def start_workers(
        self, tasks: Sequence[str], strategy: Scope, serving: Serving = ASYNCHRONOUS, local: LocalReplicas | None = None
    ) -> WorkerPool:
        """Start workers on tasks, now and after each restart; code of users runs there in the scope of this strategy.

        Args:
            serving: what the servers of their variables do for them.
            local: the replicas of each worker, which take each step together; None: a worker is one replica.

        Raises:
            FailedPreconditionError: this engine cannot.
        """
        ...

    def replica_group(self, communication: Communication) -> ReplicaGroup:
        """A group of replicas that one driver drives."""
        ...

    def join_group(self, communication: Communication, members: Sequence[Member], task: str) -> ReplicaGroup:
        """The worker group that joins the main of a task with the mains of the other tasks."""
        ...

    def launch(
        self, cluster: object, main: Callable[[], Returned], tasks: Sequence[str], environ: Callable[[str], dict[str, str]], restart: str
    ) -> LaunchedRun:
        """Run a main on each of these tasks, in this cluster and with these variables of its environment; see `Cluster.launch`.

        Raises:
            FailedPreconditionError: this engine cannot.
        """
        ...

    # -- waiting

    def promise(self) -> Promise:
        """A new promise, for which the driver can wait."""
        ...

    def require_usable(self, what: str) -> None:
        """Refuse a call from another thread, or after the engine was closed.

        Raises:
            FailedPreconditionError: it is one.
        """
        ...

    def sleep(self, seconds: float) -> None:
        """Block the caller for some seconds of the engine's time."""
        ...

    def wait_for_input(self, seconds: float) -> None:
        """As `sleep`, until the caller has its input; an engine without time has it at once."""
        ...

    def after(self, seconds: float, function: Callable[[], object], is_awaited: bool = True) -> None:
        """Call a function in so many seconds of the engine's time; one that is not awaited keeps no wait alive.

        Raises:
            FailedPreconditionError: this engine has no time.
        """
        ...

    def waiting(self) -> list[str]:
        """Who waits for what now, in words; for messages."""
        ...

    def close(self) -> None:
        """End all tasks."""
        ...
