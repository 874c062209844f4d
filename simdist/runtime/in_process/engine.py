"""The driver's half of an engine without a clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

from simdist.arguments import shown
from simdist.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, did_you_mean
from simdist.hardware import MemoryAccount, Network
from simdist.hardware.wiring import Wiring, hosts_of
from simdist.program.kernels import Kernel
from simdist.program.scope import Scope
from simdist.program.step_iterator import StepBatch
from simdist.program.values import Bundle
from simdist.runtime.delivery import Delivery
from simdist.runtime.in_process.computing import arrays_of, call_kernel
from simdist.runtime.in_process.disk import DiskHere
from simdist.runtime.in_process.programs import InProcessDriver, TaskHere
from simdist.runtime.in_process.replicas import ReplicasHere
from simdist.runtime.in_process.workers import WorkersHere
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.membership import MemberChange, MemberDecision
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.serving import ASYNCHRONOUS, Serving
from simdist.runtime.state import GroupStates
from simdist.runtime.updating import Assignment
from simdist.runtime.work import LaunchedRun
from simdist.runtime.worker_replicas import LocalReplicas
from simdist.variables.state import Cell

__all__ = ["InProcessEngine", "WithoutTime", "require_no_backups"]


class Opening:
    """Something that happens once, as `Promise`."""

    def __init__(self) -> None:
        self.is_open = False
        self.value: Any = None

    def open(self, value: Any = None) -> None:
        if not self.is_open:
            self.is_open, self.value = True, value

    def wait(self, what: str | Callable[[], str]) -> Any:
        if not self.is_open:
            asked = what if isinstance(what, str) else what()
            raise DeadlineExceededError(
                f"Waiting for {asked}, but everything that was asked for has been done, and nothing is still to happen that could end "
                "this wait. Schedule the missing work first."
            )
        return self.value


def _refuse(what: str) -> NoReturn:
    raise FailedPreconditionError(f"{what} sd.Cluster(..., engine='simulated').")


def require_no_backups(communication: Communication) -> None:
    """Refuse replicas that are not waited for.

    Raises:
        FailedPreconditionError: the strategy has some.
    """
    if communication.backup_workers:
        _refuse("backup_workers gives up those who come last, and here nobody is faster than others. It needs time:")


class WithoutTime(InProcessDriver):
    """As `Engine`, apart from where variables lie and who runs steps.

    Args:
        tasks: their names, the chief first.
        network: by whose figures strategies choose their collectives; nothing travels.
        seed: of all random streams.
    """

    now = 0.0
    numerics = "eager"

    def __init__(self, tasks: Sequence[str], network: Network, seed: int) -> None:
        super().__init__(seed, tasks[0])
        self.network = network
        self.task_names = list(tasks)
        self.tasks = {name: TaskHere(name) for name in tasks}
        self._hosts = hosts_of(network, tasks)
        self._wiring = Wiring(network, list(dict.fromkeys(self._hosts.values())))
        self._memory = {name: MemoryAccount(math.inf, name) for name in tasks}
        self._disks: dict[str, DiskHere] = {}
        self._up: list[str] = []  # those that somebody watches
        for name in tasks:
            self.trace.declare_lane(name)

    def require_serving(self, serving: Serving) -> None:
        if serving.in_rounds:  # here a closure has run when it was scheduled
            _refuse("mode='sync' and mode='bounded' let workers proceed in rounds, and here each runs alone. They need time:")

    # -- tasks and devices ----------------------------------------------------------------------------------------

    def process(self, task: str) -> TaskHere:
        if not isinstance(cast("object", task), str) or task not in self.tasks:
            raise InvalidArgumentError(f"There is no task {shown(task)} in this cluster. {did_you_mean(shown(task), self.tasks)}")
        return self.tasks[task]

    def steps_of(self, task: str) -> int:
        return self.process(task).steps

    def draws_of(self, task: str) -> int:
        return self.process(task).draws

    def set_draws(self, task: str, draws: int) -> None:
        self.process(task).draws = draws

    def add_task(self, job: str) -> NoReturn:
        _refuse(f"The tasks of this cluster are there from beginning to end, and no {job} can join. Workers come and go in")

    def add_device(self, device: str) -> None:
        task = self.process(device.partition("/")[0])
        if device not in self._memory:
            self._wiring.add_device(self._hosts[task.name], device)
            self._memory[device] = MemoryAccount(math.inf, device)
            self.trace.declare_lane(device)

    def add_devices(self, tasks: Sequence[str], local: LocalReplicas | None) -> None:
        """Add the devices of the replicas of workers."""
        for device in () if local is None else [device for task in tasks for device in local.on(task)]:
            self.add_device(device)

    def memory(self, device: str) -> MemoryAccount:
        return self._memory[device]

    def hold(self, device: str, name: str, size_bytes: int) -> None:
        """A device holds so many bytes more; negative: fewer."""
        if size_bytes >= 0:
            self._memory[device].allocate(name, size_bytes)
        else:
            self._memory[device].release(name, -size_bytes)

    def path_figures(self, source: str, target: str) -> tuple[float, float]:
        return self._wiring.figures(self._hosts.get(source, source), self._hosts.get(target, target))

    def deliver(self, deliveries: Sequence[Delivery], what: str, category: str) -> None:
        """All devices read the same arrays."""
        for one in deliveries:
            self.trace.span(one.target, category, one.name, self.now, self.now, bytes=one.size_bytes)

    def disk(self, task: str) -> DiskHere:
        return self._disks.setdefault(self.process(task).name, DiskHere(self.tasks))

    def preempted_at(self, task: str) -> None:
        self.process(task)  # refuses one that is not there

    def watch_preemption(self, task: str, noticed: Callable[[float], object]) -> None:
        self.process(task)  # nobody takes a machine away here

    def traffic(self, cells: Sequence[Cell]) -> NoReturn:
        _refuse("All tasks share the memory of one process, and nothing travels that could be counted. Traffic needs a network:")

    def subscribe(self, tasks: Sequence[str], changed: Callable[[MemberDecision], None]) -> None:
        for task in [self.process(name) for name in tasks if name not in self._up]:
            self._up.append(task.name)
            changed(MemberDecision(MemberChange.UP, task.name, task.incarnation))

    def is_believed_up(self, task: str) -> bool:
        return task in self._up

    def notice(self, member: Member, reason: str) -> None:
        """Nobody dies here."""

    # -- work -----------------------------------------------------------------------------------------------------

    def closure_figures(self, linked: LinkedProgram, task: str, batches: Sequence[StepBatch] = ()) -> tuple[float, float]:
        return 0.0, 0.0

    def join_group(self, communication: Communication, members: Sequence[Member], task: str) -> NoReturn:
        _refuse("Mains that meet each other need an engine with tasks that run side by side:")

    def launch(
        self, cluster: Any, main: Callable[[], Any], tasks: Sequence[str], environ: Callable[[str], dict[str, str]], restart: str
    ) -> LaunchedRun:
        _refuse("Launched mains need an engine with tasks that run side by side:")

    # -- waiting --------------------------------------------------------------------------------------------------

    def promise(self) -> Opening:
        return Opening()

    def sleep(self, seconds: float) -> None:
        _refuse("No time passes in this cluster, so nobody can sleep. Leave the sleep out, or take an engine with a clock:")

    def wait_for_input(self, seconds: float) -> None:
        """Nothing: it is there."""

    def after(self, seconds: float, function: Callable[[], object], is_awaited: bool = True) -> None:
        _refuse("No time passes in this cluster, so nothing can happen later. Leave the seconds out, or take an engine with a clock:")

    def waiting(self) -> list[str]:
        return []  # all that was asked for has been done

    def arrays(self, bundles: Sequence[Bundle]) -> list[tuple[Any, ...]]:
        return list(map(arrays_of, bundles))


class InProcessEngine(WithoutTime):
    """As `Engine`; arguments as of `WithoutTime`. All tasks share the memory of the driver.

    Attributes:
        versions: the values of all variables.
    """

    def __init__(self, tasks: Sequence[str], network: Network, seed: int) -> None:
        super().__init__(tasks, network, seed)
        self.versions = GroupStates(arrays_of, lambda kernel, given, writes: call_kernel(kernel, given, [writes])[0], self.hold)

    def read(self, groups: Sequence[int]) -> list[tuple[Any, ...]]:
        return [arrays_of(self.versions.present(group)) for group in groups]

    def require_present(self, groups: Sequence[int]) -> None:
        for group in groups:
            self.versions.present(group)

    def assign(self, groups: Sequence[int], change: Assignment, operand: Any, what: str) -> None:
        for group in groups:
            before = self.versions.present(group).arrays
            if change.is_wide and before is not None:
                self.versions.put(group, change.applied(before, operand))
            else:
                self.change(group, change.kernel, Bundle.of([operand]), f" ({what})")

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, of its arrays and the given ones."""
        before = self.versions.present(group)
        self.versions.put(group, call_kernel(kernel, [before, given], [before.avals], where=where)[0])

    def start_workers(
        self, tasks: Sequence[str], strategy: Scope, serving: Serving = ASYNCHRONOUS, local: LocalReplicas | None = None
    ) -> WorkersHere:
        self.require_serving(serving)
        self.add_devices(tasks, local)
        return WorkersHere(self, list(map(self.process, tasks)), strategy, local)

    def replica_group(self, communication: Communication) -> ReplicasHere:
        require_no_backups(communication)
        return ReplicasHere(self, communication, self.process)
