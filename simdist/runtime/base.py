"""The wall between strategies and what they run on.

Above it are strategies, coordinator and trainer, which know no clock, no network and no fiber. Behind it are engines, which know no
strategy. A driver (the notebook, or a launched main) reaches tasks through an `Engine`; a program on a task reads, computes, updates
and meets other replicas through a `TaskRuntime`; and nothing else passes.

An operation of a linked program starts itself: the method of `TaskRuntime` returns its result, or `PENDING`, and calls `step.go(result)`
later. Only code of users may block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Literal, Protocol

from simdist.hardware import MemoryAccount, Network
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.linked import ApplyAll, CheckFinite, LinkedCollective, ReadGroups, RunKernel
from simdist.runtime.membership import Decision
from simdist.runtime.replicas import Communication, Member, Process, ReplicaGroup
from simdist.runtime.work import LaunchedRun, WorkerPool
from simdist.trace import Trace
from simdist.variables.state import GroupVersions

__all__ = ["PENDING", "Engine", "Later", "Pending", "Promise", "StepInProgress", "TaskRuntime"]


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

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle] | Later:
        """Call a kernel on this task's device."""
        ...

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
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


class Promise(Protocol):
    """Something that happens once, and that a driver can wait for."""

    @property
    def is_open(self) -> bool: ...
    def open(self, value: Any = None) -> None: ...
    def wait(self, what: str) -> Any: ...


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

    def add_device(self, device: str) -> None:
        """A device of a task (``worker:0/gpu:1``) that is like the task's own, if it is not there yet."""
        ...

    def memory(self, device: str) -> MemoryAccount:
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
        """Watch tasks; tell each change of what the chief believes of them, the first of all that they are up."""
        ...

    def is_believed_up(self, task: str) -> bool:
        """What the chief believes of a task that somebody watches."""
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

    def start_workers(self, tasks: Sequence[str], strategy: Any) -> WorkerPool:
        """Let tasks take closures, now and after each restart; code of users runs there in the scope of this strategy."""
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
