"""The simulated engine: the driver's half of the wall on a `World`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from simdist.hardware import Device, DiskModel, MemoryAccount, Network
from simdist.ledger.sharded import JaxDevice
from simdist.program.arrays import Array, Arrays
from simdist.program.scope import Scope
from simdist.program.step_iterator import StepBatch
from simdist.program.values import Bundle
from simdist.runtime.delivery import Delivery
from simdist.runtime.directories import Directories
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.membership import MemberDecision
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.serving import ASYNCHRONOUS, Serving
from simdist.runtime.simulated.callers import AwaitedPromise, calling_task
from simdist.runtime.simulated.copies import Copy
from simdist.runtime.simulated.forecast import closure_figures
from simdist.runtime.simulated.joining import join
from simdist.runtime.simulated.recoveries import present_versions
from simdist.runtime.simulated.replica_group import SimulatedReplicaGroup
from simdist.runtime.simulated.run import SimulatedRun
from simdist.runtime.simulated.task import Incarnation
from simdist.runtime.simulated.task_disk import SimulatedDisk
from simdist.runtime.simulated.traffic import traffic_of
from simdist.runtime.simulated.worker_group import join_group
from simdist.runtime.simulated.worker_pool import SimulatedWorkers
from simdist.runtime.simulated.world import World
from simdist.runtime.unfinished import Unfinished
from simdist.runtime.updating import Assignment
from simdist.runtime.work import Returned
from simdist.runtime.worker_replicas import LocalReplicas
from simdist.simulation.dead_code import require_not_dead
from simdist.simulation.endless import waits_of
from simdist.variables.state import Cell
from simdist.variables.traffic import CellTraffic

__all__ = ["SimulatedEngine"]


class SimulatedEngine:
    """As `Engine`.

    Args:
        devices: the device of each task, by name, the chief first.
        network: bandwidth and latency of every port.
        seed: of all random streams.
        numerics, jax_devices: the ledger's.
        disks: the figures of the tasks' disks by job; default nvme.

    Attributes:
        world: everything behind the wall.
    """

    def __init__(
        self,
        devices: dict[str, Device],
        network: Network,
        seed: int,
        numerics: str,
        jax_devices: Sequence[JaxDevice] | None = None,
        disks: Mapping[str, DiskModel] | None = None,
    ) -> None:
        self.world = world = World(devices, network, seed, numerics, jax_devices, disks)
        self.seed = seed
        self.network = network
        self.trace = world.trace
        self.numerics = numerics
        self.versions = world.states
        self.unfinished: list[Unfinished] = []
        self.directories = Directories()
        self.chief = world.chief.name

    @property
    def now(self) -> float:
        return self.world.clock.now

    # -- tasks and devices ----------------------------------------------------------------------------------------

    @property
    def task_names(self) -> list[str]:
        return [name for name in self.world.tasks if name not in self.world.left]

    def add_task(self, job: str) -> str:
        require_not_dead()
        return join(self.world, job).name

    def process(self, task: str) -> Incarnation:
        return self.world.task(task).process

    def steps_of(self, task: str) -> int:
        return self.world.task(task).steps

    def draws_of(self, task: str) -> int:
        return self.world.task(task).draws

    def set_draws(self, task: str, draws: int) -> None:
        self.world.task(task).draws = draws

    def add_device(self, device: str) -> None:
        self.world.add_device(device)

    def memory(self, device: str) -> MemoryAccount:
        return self.world.processor(device).memory

    def path_figures(self, source: str, target: str) -> tuple[float, float]:
        route = self.world.routes.between(source, target)
        return route.latency_s, min(link.bandwidth_bytes_per_s for link in route.links)

    def deliver(self, deliveries: Sequence[Delivery], what: str, category: str) -> None:
        began_s, processor, gate = self.now, calling_task(self.world.tasks).processor, self.world.clock.gate()
        cause, records, copies = processor.last, list[int](), list[Copy]()

        def ended(one: Delivery, error: BaseException | None) -> None:
            if error is None:
                facts = {"cause": cause, "bytes": one.size_bytes}
                records.append(self.trace.span(one.target, category, one.name, began_s, self.now, **facts))
            if not gate.is_open and error is not None:
                gate.fail(error)
            elif len(records) == len(deliveries):
                gate.open()

        try:
            for one in deliveries:
                copies.append(self.world.copy(one.source, one.target, one.size_bytes, what, partial(ended, one)))
            if copies:
                self.world.clock.wait(gate, what)
        finally:
            for copy in copies:
                if copy.open:
                    copy.drop()
        processor.last = max([processor.last, *records])

    def disk(self, task: str) -> SimulatedDisk:
        self.require_usable(f"The disk of {task} was needed")
        return self.world.disk(task)

    def preempted_at(self, task: str) -> float | None:
        return self.world.preemptions.killed_at(self.world.task(task))

    def watch_preemption(self, task: str, noticed: Callable[[float], object]) -> None:
        self.world.preemptions.watch(self.world.task(task), noticed)

    def subscribe(self, tasks: Sequence[str], changed: Callable[[MemberDecision], None]) -> None:
        watched = frozenset(tasks)
        self.world.detection.listeners.append(lambda decision: changed(decision) if decision.task in watched else None)
        self.world.detection.watch(tasks)

    def is_believed_up(self, task: str) -> bool:
        return self.world.detection.membership.is_up(task)

    def notice(self, member: Member, reason: str) -> None:
        self.world.notice(member, reason)

    # -- variables ------------------------------------------------------------------------------------------------

    def read(self, groups: Sequence[int]) -> list[Arrays]:
        return self.arrays(present_versions(self.world, groups))

    def require_present(self, groups: Sequence[int]) -> None:
        present_versions(self.world, groups)

    def assign(self, groups: Sequence[int], change: Assignment, operand: Array, what: str) -> None:
        require_not_dead()
        states, ledger = self.world.states, self.world.ledger
        versions = present_versions(self.world, groups)
        if len(change.state) == 1 and change.rule == "assign" and ledger.numerics != "off":
            # What was there before does not matter: all get the operand, and nothing is to be computed.
            after = [change.applied((operand,), operand)] * len(versions)
        elif change.is_wide and (known := self._known(versions)) is not None:
            after = [change.applied(before, operand) for before in known]
        else:
            site = ledger.site(change.kernel, [change.state], [change.state])
            after = [ledger.call(site, (before,), None, (operand,), what)[0] for before in versions]
        for group, version in zip(groups, after, strict=True):
            states.put(group, version)
            self.world.assigned(states.groups[group].task)

    def _known(self, versions: Sequence[Bundle]) -> list[Arrays] | None:
        """The arrays of versions, computed now; None where no numbers are computed, or fail: the error belongs to who reads them."""
        if self.world.ledger.numerics == "off":
            return None
        try:
            return self.arrays(versions)
        except Exception:
            return None

    def traffic(self, cells: Sequence[Cell]) -> list[CellTraffic]:
        return traffic_of(self.world, cells)

    def arrays(self, bundles: Sequence[Bundle]) -> list[Arrays]:
        if len(bundles) > 1:
            self.world.ledger.compute(bundles)
        return [self.world.ledger.arrays(bundle) for bundle in bundles]

    # -- work -----------------------------------------------------------------------------------------------------

    def closure_figures(self, linked: LinkedProgram, task: str, batches: Sequence[StepBatch] = ()) -> tuple[float, float]:
        return closure_figures(self.world, linked, task, batches)

    def require_serving(self, serving: Serving) -> None:
        """Servers can do all of it."""

    def start_workers(
        self, tasks: Sequence[str], strategy: Scope, serving: Serving = ASYNCHRONOUS, local: LocalReplicas | None = None
    ) -> SimulatedWorkers:
        require_not_dead()
        return SimulatedWorkers(self.world, tasks, strategy, serving, local)

    def replica_group(self, communication: Communication) -> SimulatedReplicaGroup:
        return SimulatedReplicaGroup(self.world, communication)

    def join_group(self, communication: Communication, members: Sequence[Member], task: str) -> SimulatedReplicaGroup:
        require_not_dead()
        return SimulatedReplicaGroup(self.world, communication, join_group(self.world, members, task, communication))

    def launch(
        self, cluster: object, main: Callable[[], Returned], tasks: Sequence[str], environ: Callable[[str], dict[str, str]], restart: str
    ) -> SimulatedRun:
        return SimulatedRun(self.world, cluster, [self.world.task(name) for name in tasks], main, environ, restart)

    # -- waiting --------------------------------------------------------------------------------------------------

    def promise(self) -> AwaitedPromise:
        return AwaitedPromise(self.world.clock, self.world.tasks, self.world.disks.last)

    def require_usable(self, what: str) -> None:
        require_not_dead()
        self.world.clock.require_thread()
        self.world.clock.require_open(what)

    def sleep(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    wait_for_input = sleep

    def after(self, seconds: float, function: Callable[[], object], is_awaited: bool = True) -> None:
        if is_awaited:
            self.world.clock.after(seconds, lambda _: function())
        else:
            self.world.clock.after_daemon(seconds, function)

    def waiting(self) -> list[str]:
        return waits_of([*self.world.clock.fibers, *self.world.clock.steps])

    def close(self) -> None:
        self.world.close()
