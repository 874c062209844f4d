"""The world: all tasks of a simulated cluster and what they hold, in virtual time.

How they die and start again is in `crashes`; how they join and leave, in `joining`.

Not simulated: the cost of serialising, message headers, the size of a program that is sent for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol, cast

from simdist.arguments import shown
from simdist.errors import InvalidArgumentError, UnavailableError, did_you_mean
from simdist.hardware import Device, DiskModel, Network
from simdist.hardware.wiring import hosts_of
from simdist.jax_settings import OpenSetting
from simdist.ledger.ledger import Ledger
from simdist.ledger.sharded import JaxDevice
from simdist.process_state import TaskContext, active_context
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle, BundleType
from simdist.randomness import derive_seed, keras_seeds
from simdist.runtime.replicas import Member
from simdist.runtime.simulated.absences import absences
from simdist.runtime.simulated.copies import Copy
from simdist.runtime.simulated.crashes import CrashesAndRestarts
from simdist.runtime.simulated.detection import Detection
from simdist.runtime.simulated.disks import Disks
from simdist.runtime.simulated.disturbances import Disturbances
from simdist.runtime.simulated.failing_steps import FailingSteps
from simdist.runtime.simulated.mail import MailToChief
from simdist.runtime.simulated.preemptions import Preemptions
from simdist.runtime.simulated.pricing import Prices
from simdist.runtime.simulated.processor import Processor
from simdist.runtime.simulated.routes import Routes
from simdist.runtime.simulated.row_uses import TableUses
from simdist.runtime.simulated.server_loop import ServerLoop
from simdist.runtime.simulated.serving_mains import ServingMains
from simdist.runtime.simulated.silence import Silence
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.task_disk import SimulatedDisk
from simdist.runtime.simulated.transport import Transport
from simdist.runtime.state import GroupStates
from simdist.runtime.work import Returned
from simdist.simulated_process import SimulatedProcess
from simdist.simulation.fabric import Fabric
from simdist.simulation.kernel import Clock, Fiber
from simdist.simulation.network import Link, SharedLinks
from simdist.trace import Trace
from simdist.variables.state import task_of

__all__ = ["World"]


class Foreseen(Protocol):
    """What ends at seconds that are known, as long as nothing disturbs it."""

    def unfold(self) -> None: ...
    def carried(self) -> Mapping[Link, float]: ...


class World(CrashesAndRestarts):
    """All tasks of one cluster.

    Args:
        devices: the device of each task, by name, in the order of the pictures; ``chief:0`` is the chief.
        network: bandwidth and latency of every port.
        seed: of all random streams.
        numerics, jax_devices: the ledger's.
        disks: the figures of the tasks' disks by job; default nvme.
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
        self.seed = seed
        self.network = network
        self.clock = Clock()
        self.links = SharedLinks(self.clock)
        self.ledger = Ledger(numerics, jax_devices)
        self.trace = Trace(seed=seed)
        self.host_of = hosts_of(network, list(devices))
        self.fabric = Fabric(network, list(dict.fromkeys(self.host_of.values())))
        self.disturbances = Disturbances(self.links, lambda source, target: self.routes.bandwidth(source, target), seed)
        self.transport = Transport(self.clock, self.links, self.trace, self.disturbances)
        self.routes = Routes(self.fabric, self.host_of, self.transport)
        self.tasks = {name: Task(name, device) for name, device in devices.items()}
        self.states = GroupStates(self.ledger.parts, self._call, self.hold, self.changed_at_once)
        self.prices = Prices(self.ledger, self.states)
        self.step_ended: list[Callable[[str], None]] = []  # are called with the task that has one more step, or one more update
        self.workers: list[Any] = []  # the workers of each coordinator, as `SimulatedWorkers`
        self.coordinators = count()  # their numbers
        self.closure_completed: list[Callable[[], None]] = []
        self.servers = {
            name: ServerLoop(task, self.clock, self.trace, self.ledger, self.states, self.step_ended) for name, task in self.tasks.items()
        }
        for name, task in self.tasks.items():
            self.trace.declare_lane(name)
            task.begin(self.seed, 0)
        self.trace.gauges.append(self._gauges)
        self.chief = self.tasks["chief:0"]
        self.mains = {name: [] for name in devices}
        self.starts_again_s: dict[str, float] = {}  # when launched mains start again that have failed, by task
        self.started_again_s: dict[str, float] = {}  # when launched mains have started again for the last time, by task
        self.serving_mains = ServingMains()
        self.failing_steps = FailingSteps(self.clock)
        self.chief_is_launched = False
        self.recoveries = {}
        self.disks = Disks(self.clock, self.trace, self.tasks, disks or {}, seed, self.copy)
        self.preemptions = Preemptions(self.clock, self.trace, partial(self.crash, keep_disk=False))
        self.listeners = []
        self.silence = Silence(self.clock, self.transport, self.listeners)
        self.detection = Detection(self.clock, self.trace, self.tasks, MailToChief(self.routes, self.silence, self.chief))
        self.silence.changed.append(self.detection.expect_change)
        self.silence.went_on.append(lambda task, since_s: self.servers[task.name].stood_still(since_s, self.now))
        self.left: set[str] = set()  # tasks that are members no longer
        self.clock.absences = lambda: absences(self.tasks.values(), self.left, self.detection.membership)
        self.is_foreseeable = True  # until a fault has begun that loses messages, or changes their time
        self.foreseen: dict[Foreseen, None] = {}  # what is under way and ends at known seconds
        self.groups: list[Any] = []  # of workers that train together, each with a main of its own
        self.table_uses = TableUses()
        self.engine_context = TaskContext(active_context().process)  # of fibers that run no code of a user

    def disturb(self) -> None:
        """A fault begins: what was to end at a known second goes on event by event, from where it is, and so does what begins later."""
        self.is_foreseeable = False
        for one in list(self.foreseen):
            one.unfold()

    def task(self, name: str) -> Task:
        """A task by its name.

        Raises:
            InvalidArgumentError: there is none; the message lists those that exist.
        """
        if not isinstance(cast("object", name), str) or name not in self.tasks:
            raise InvalidArgumentError(f"There is no task {shown(name)} in this cluster. {did_you_mean(shown(name), self.tasks)}")
        return self.tasks[name]

    def disk(self, name: str) -> SimulatedDisk:
        """The disk of a task.

        Raises:
            InvalidArgumentError: there is no such task.
        """
        return self.disks.of(self.task(name))

    def _gauges(self) -> dict[tuple[str, str], float]:
        """The bytes that the links have carried (of messages that have arrived), and the number of scans that the ledger has compiled."""
        # Not `links.bytes_carried`: to work out what is on its way would round, and looking must change nothing.
        carried = {(link.name, "link_bytes"): self.links.bytes_arrived(link) for link in self.fabric.links()}
        return {**carried, (self.chief.name, "compilations"): self.ledger.compilations}

    def bytes_carried(self) -> dict[str, float]:
        """The bytes that each link has carried up to now, those of messages on their way too. Looking changes nothing."""
        links = self.fabric.links()
        carried = {link: self.links.bytes_carried(link) for link in links}
        for one in self.foreseen:
            for link, num_bytes in one.carried().items():
                carried[link] += num_bytes
        return {link.name: carried[link] for link in links}

    # -- messages -------------------------------------------------------------------------------------------------

    def copy(self, source: str, target: str, size_bytes: float, what: str, ended: Callable[[BaseException | None], object]) -> Copy:
        """Copy bytes from one device to another; `ended` is called when they have arrived, or with the error.

        Raises:
            UnavailableError: one of the two tasks is down.
        """
        ends = self.task(task_of(source)), self.task(task_of(target))
        return Copy(self.transport, self.routes.between(source, target), ends, (source, target), size_bytes, what, ended)

    # -- starts ---------------------------------------------------------------------------------------------------

    def start(self, task: Task, function: Callable[[], Returned], lane: str | None = None, context: TaskContext | None = None) -> Fiber:
        """Run a function as a part of a task's present incarnation."""
        fiber = self.clock.spawn(lane or task.name, function, context or self.context_of(task))
        fiber.held = task.held
        task.fibers.append(fiber)
        return fiber

    def context_of(
        self, task: Task, process: SimulatedProcess | None = None, prefix: str = "", jax_settings: Sequence[OpenSetting] = ()
    ) -> TaskContext:
        """Process-wide state for one incarnation, seeded by (seed, task, incarnation).

        Args:
            task: what it runs on.
            process: that the code belongs to, with all of its program; None: the Python process.
            prefix: of the lines that it prints.
            jax_settings: of JAX, in which the code begins.
        """
        return TaskContext(process, prefix, keras_seeds(self.seed, task.name, task.incarnation), jax_settings)

    def process_of_main(self, task: Task, environ: Mapping[str, str]) -> SimulatedProcess:
        """A process for the main that is launched on a task's present incarnation."""
        return SimulatedProcess(environ, derive_seed(self.seed, task.name, task.incarnation, "generators"))

    def add_device(self, device_name: str, device: Device | None = None) -> Processor:
        """Add a device to a task (``worker:0/gpu:1``), with its links inside the host; by default a copy of the task's own."""
        task = self.task(device_name.partition("/")[0])
        if device_name != task.name and device_name not in task.processors:
            self.fabric.add_device(self.host_of[task.name], device_name)
            self.trace.declare_lane(device_name)
        return task.add_processor(device_name, device or task.device, self.seed)

    def _call(self, kernel: Kernel, inputs: Sequence[Bundle], writes: BundleType) -> Bundle:
        """Call a kernel in no time: it is no work of a device."""
        site = self.ledger.site(kernel, [bundle.avals for bundle in inputs], [writes])
        return self.ledger.call(site, inputs)[0]

    def busy(self) -> int:
        """How many fibers and steps there are."""
        return len(self.clock.fibers) + len(self.clock.steps)

    def task_of(self, device_name: str) -> Task:
        """The task of a device."""
        return self.tasks[task_of(device_name)]

    def notice(self, member: Member, reason: str) -> None:
        """Note that the peers of a member have detected its death."""
        process = member.process
        assert isinstance(process, Incarnation)
        self.detection.notice(member.task, process, reason)

    def processor(self, device_name: str) -> Processor:
        """The processor of a device."""
        return self.tasks[device_name.partition("/")[0]].processors[device_name]

    def changed_at_once(self, task: str) -> None:
        """Variables of a task were changed in no time, between steps: that holds where its server survives a crash."""
        if task in self.recoveries:
            self.recoveries[task].changed_at_once()

    def assigned(self, task: str) -> None:
        """Variables of a task were assigned to between steps, in no time."""
        if task in self.recoveries:
            self.recoveries[task].assigned()

    def hold(self, device_name: str, name: str, size_bytes: int) -> None:
        """Note bytes of a variable or a slot that a processor holds from now on; negative: that it drops.

        Raises:
            UnavailableError: its task is down.
        """
        memory = self.processor(device_name).memory
        if size_bytes >= 0:
            if not self.task(task_of(device_name)).alive:
                raise UnavailableError(
                    f"{task_of(device_name)} is down, and cannot hold {name}. Make variables while all tasks that hold them are up (those "
                    "of an optimizer are made by optimizer.build(variables), or at its first step); after a death, when the task is back, "
                    "or under on_failure='continue' after the next step."
                )
            memory.allocate(name, size_bytes)
        else:
            memory.release(name, -size_bytes)

    def close(self) -> None:
        """End all tasks."""
        self.clock.close()
