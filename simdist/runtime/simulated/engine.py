"""The simulated runtime: tasks, messages between them, crashes and restarts, in virtual time.

A crash kills a process: its fibers end, its memory is gone, its connections are reset at once, so that whoever talked to
it learns of it one latency later. A message of a dead incarnation has no effect, wherever it is.

Not simulated: the cost of serialising, message headers, the size of a program that is sent for the first time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from simdist.errors import InvalidArgumentError, UnavailableError, did_you_mean
from simdist.hardware import Device, Network, Torus
from simdist.process_state import TaskContext
from simdist.program.ledger import Ledger
from simdist.randomness import derive_seed
from simdist.runtime.simulated.detection import Detection
from simdist.runtime.simulated.processor import Processor
from simdist.runtime.simulated.task import Life, Task
from simdist.simulation.fabric import Fabric, Route
from simdist.simulation.kernel import Clock, Fiber, current_fiber
from simdist.simulation.network import Flow, Link, SharedLinks
from simdist.trace import Trace
from simdist.variables.state import task_of

__all__ = ["SimulatedRuntime"]


class SimulatedRuntime:
    """All tasks of one cluster.

    Args:
        devices: the device of each task, by name, in the order of the pictures; ``chief:0`` is the chief.
        network: bandwidth and latency of every port.
        seed: of all random streams.
        numerics, jax_devices: the ledger's.
    """

    def __init__(
        self, devices: dict[str, Device], network: Network, seed: int, numerics: str, jax_devices: Sequence[Any] | None = None
    ) -> None:
        self.seed = seed
        self.network = network
        self.clock = Clock()
        self.links = SharedLinks(self.clock)
        self.ledger = Ledger(numerics, jax_devices)
        self.trace = Trace(seed=seed)
        self.fabric, self._place = _wired(network, list(devices))
        self.tasks = {name: Task(name, device) for name, device in devices.items()}
        for name, task in self.tasks.items():
            self.trace.declare_lane(name)
            task.begin(self.seed, 0)
        self.trace.gauges.append(self._gauges)
        self.chief = self.tasks["chief:0"]
        self.detection = Detection(self.clock, self.trace, self.tasks, lambda task: self.latency(task, self.chief))
        self.mains: dict[str, list[Callable[[Task], Any]]] = {name: [] for name in devices}  # what a task does again after a restart
        self.step_ended: list[Callable[[str], None]] = []  # are told the name of whose steps, or updates of whose variables, are one more
        self.lost: list[Callable[[Task], None]] = []  # what must know at once that a task's memory is gone
        self.groups: list[Any] = []  # of workers that train together, each with a main of its own
        self.engine_context = TaskContext()  # of fibers that run no code of a user

    @property
    def now(self) -> float:
        return self.clock.now

    def task(self, name: str) -> Task:
        """A task by its name.

        Raises:
            InvalidArgumentError: there is none; the message lists those that exist.
        """
        if name not in self.tasks:
            raise InvalidArgumentError(f"There is no task {name!r} in this cluster. {did_you_mean(name, self.tasks)}")
        return self.tasks[name]

    def _gauges(self) -> dict[tuple[str, str], float]:
        """What the links have carried (messages that have arrived), and how many scans the ledger has compiled."""
        # Not `links.bytes_carried`: to work out what is on its way would round, and looking must change nothing.
        carried = {(link.name, "link_bytes"): link.bytes_carried for link in self.fabric.links()}
        sums = {key: num_bytes for key, num_bytes in carried.items() if num_bytes}
        return {**sums, (self.chief.name, "compilations"): self.ledger.compilations}

    # -- messages -------------------------------------------------------------------------------------------------

    def between(self, source: str, target: str) -> Route:
        """The way between two places: tasks or devices."""
        return self.fabric.route(self._place.get(source, source), self._place.get(target, target))

    def latency(self, source: Task, target: Task) -> float:
        """Seconds until an empty message has arrived."""
        return self.fabric.route(self._place[source.name], self._place[target.name]).latency_s

    def route(self, source: Task, target: Task) -> tuple[Link, ...]:
        """The links that bytes travel over."""
        return self.fabric.route(self._place[source.name], self._place[target.name]).links

    def send(self, source: Task, target: Task, num_bytes: float, arrived: Callable[[Any], None], argument: Any = None) -> None:
        """Send a message; `arrived(argument)` is called when it has come, unless one of the two has died on the way."""
        self.clock.after(self.latency(source, target), self._sent, (source, source.life, target, target.life, num_bytes, arrived, argument))

    def _sent(self, message: tuple[Task, Life, Task, Life, float, Callable[[Any], None], Any]) -> None:
        source, source_life, target, target_life, num_bytes, arrived, argument = message
        if not (source_life.alive and target_life.alive):
            return
        route = self.route(source, target) if num_bytes > 0 else ()
        if not route:
            arrived(argument)
        else:
            self.trace.total(source.name, "bytes_sent", num_bytes)
            self.links.start(route, num_bytes, self._sent, (source, source_life, target, target_life, 0, arrived, argument))

    def carry(self, source: str, target: str, size_bytes: float, what: str) -> None:
        """Block until bytes have come from one place to another.

        Args:
            source, target: tasks or devices.
            size_bytes: how much.
            what: the caller waits for, in words.

        Raises:
            UnavailableError: one of the two died on the way.
        """
        route, gate = self.between(source, target), self.clock.gate()
        ends = [self.task(task_of(place)) for place in (source, target)]
        lives = [task.life for task in ends]
        flows: list[Flow] = []

        def died(task: Task) -> None:
            if task in ends:
                for flow in flows:
                    self.links.stop(flow)
                error = UnavailableError(f"{task.name} died while {what} were on their way.")
                self.clock.after(route.latency_s, lambda _: gate.fail(error))

        def leave(_: Any) -> None:
            if all(life.alive for life in lives):
                self.trace.total(source, "bytes_sent", size_bytes)
                flows.append(self.links.start(route.links, size_bytes, gate.open))

        for task in ends:
            if not task.alive:
                raise UnavailableError(f"{task.name} is down, so {what} cannot come.")
        self.lost.append(died)
        try:
            self.clock.after(route.latency_s, leave)
            self.clock.wait(gate, what)
        finally:
            self.lost.remove(died)

    # -- life and death -------------------------------------------------------------------------------------------

    def start(self, task: Task, function: Callable[[], Any], lane: str | None = None, context: TaskContext | None = None) -> Fiber:
        """Run a function as a part of a task's present incarnation."""
        fiber = self.clock.spawn(lane or task.name, function, context or self.context_of(task))
        task.fibers.append(fiber)
        return fiber

    def context_of(self, task: Task, environ: dict[str, str] | None = None, prefix: str = "") -> TaskContext:
        """Process-wide state for one incarnation, seeded by (seed, task, incarnation)."""
        drawn = [0]

        def next_seed() -> int:
            drawn[0] += 1
            return 1 + derive_seed(self.seed, task.name, task.incarnation, "keras", drawn[0]) % 1_000_000_000

        return TaskContext(environ, prefix, next_seed)

    def crash(self, task: Task, restart_after_s: float | None = None, reason: str = "fault") -> None:
        """Kill a task's process now; if it is down already, what was said of its restart is replaced."""
        now, incarnation = self.now, task.incarnation
        if not task.alive:
            self.trace.instant(task.name, "crash", f"crash of {task.name}, which is down", now, incarnation=incarnation, reason=reason)
            self._plan_restart(task, restart_after_s)
            return
        task.life.alive, task.down_since_s = False, now
        self.trace.instant(task.name, "crash", f"crash of {task.name}", now, incarnation=incarnation, reason=reason)
        task.local.clear()
        for processor in task.processors.values():
            processor.memory.clear()
        for listener in list(self.lost):
            listener(task)
        calls, task.calls = task.calls, {}
        for call in calls:
            call.lost(task)
        self.clock.after(self.latency(task, self.chief), lambda _: self.detection.connection_reset(task.name, incarnation))
        self._plan_restart(task, restart_after_s)
        fibers, task.fibers = task.fibers, []
        for fiber in fibers:
            if fiber is not current_fiber():
                self.clock.kill(fiber)
        if task is self.chief:
            self.tell_driver(UnavailableError(f"{task.name} crashed at {now:.6f} s, and this program with it."))
        for fiber in fibers:
            if fiber is current_fiber():
                self.clock.kill(fiber)

    def _plan_restart(self, task: Task, delay_s: float | None) -> None:
        task.restart_plan = plan = object()
        if delay_s is not None:
            self.clock.after(delay_s, lambda _: task.restart_plan is plan and self.restart(task))

    def restart(self, task: Task) -> None:
        """Start a task's process again, with the next incarnation and an empty memory."""
        if task.alive:
            return
        task.begin(self.seed, task.incarnation + 1, self.now)
        self.trace.span(task.name, "down", "down", task.down_since_s, self.now)
        self.trace.instant(task.name, "restart", f"restart of {task.name}", self.now, incarnation=task.incarnation)
        for main in list(self.mains[task.name]):
            main(task)
        self.register(task)

    def register(self, task: Task) -> None:
        """Tell the chief that this incarnation is there."""
        incarnation = task.incarnation
        self.send(task, self.chief, 0, lambda _: self.detection.heartbeat(task.name, incarnation))

    def add_device(self, place: str, device: Device | None = None) -> Processor:
        """A device of a task (``worker:0/gpu:1``), with its links inside the host; by default like the task's own."""
        task = self.task(place.partition("/")[0])
        if place != task.name and place not in task.processors:
            self.fabric.add_device(self._place[task.name], place)
            self.trace.declare_lane(place)
        return task.add_processor(place, device or task.device, self.seed)

    def processor(self, place: str) -> Processor:
        """The processor of a place."""
        return self.tasks[place.partition("/")[0]].processors[place]

    def hold(self, place: str, name: str, size_bytes: int) -> None:
        """Bytes of a variable or a slot that lie on a processor from now on; negative: that are gone.

        Raises:
            UnavailableError: its task is down.
        """
        memory = self.processor(place).memory
        if size_bytes >= 0:
            if not self.task(task_of(place)).alive:
                raise UnavailableError(
                    f"{task_of(place)} is down, and cannot hold {name}. Make variables while all tasks that hold them are up; after a "
                    "death under on_failure='continue', after the next step."
                )
            memory.allocate(name, size_bytes)
        else:
            memory.release(name, -size_bytes)

    # -- what faults need -----------------------------------------------------------------------------------------

    def slow(self, task: Task, factor: float) -> Callable[[], None]:
        """Slow a task down; the result takes this factor away again."""
        return task.slow_by(factor)

    def later(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call a function after a delay, without keeping the run alive."""
        self.clock.after_daemon(delay_s, function)

    def ask(self, predicate: Callable[[Any], Any], cluster: Any) -> bool:
        """What a predicate says, which may look but not wait."""
        with self.clock.asking():
            return bool(predicate(cluster))

    def tell_driver(self, error: BaseException) -> None:
        """Raise an error in the notebook: from the blocking call that it is in, or at once where it runs itself."""
        if not self.clock.is_driving:
            raise error
        self.clock.interrupt_driver(error)

    def require_open(self, what: str) -> None:
        """See `Clock.require_open`."""
        self.clock.require_open(what)

    def close(self) -> None:
        """End all tasks."""
        self.clock.close()


def _wired(network: Network, names: list[str]) -> tuple[Fabric, dict[str, str]]:
    """The fabric that joins the tasks, and the host of each.

    A torus has as many nodes as its shape says: where the notebook's chief is one task too many, it runs on the first node.
    """
    hosts = names
    if isinstance(network.topology, Torus) and math.prod(network.topology.shape) == len(names) - 1:
        hosts = names[1:]
    return Fabric(network, hosts), {name: name if name in hosts else hosts[0] for name in names}
