"""The simulated runtime: tasks, messages between them, crashes and restarts, in virtual time.

A crash kills a process: its fibers end, its memory is gone, its connections are reset at once, so that whoever talked to
it learns of it one latency later. A message of a dead incarnation has no effect, wherever it is.

Not simulated: the cost of serialising, message headers, the size of a program that is sent for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from simdist.errors import InvalidArgumentError, UnavailableError, did_you_mean
from simdist.hardware import Device, Network
from simdist.program.ledger import Ledger
from simdist.runtime.membership import Decision, Membership
from simdist.runtime.task import Exchange, Task
from simdist.simulation.kernel import Clock, Fiber
from simdist.simulation.network import SharedLinks
from simdist.simulation.streams import derive_seed
from simdist.simulation.task_context import TaskContext
from simdist.trace import Trace

__all__ = ["SimulatedRuntime"]

HEARTBEAT_S = 1.0
SILENCE_S = 5.0


class SimulatedRuntime:
    """All tasks of one cluster.

    Args:
        devices: the device of each task, by name, in the order of the pictures; the first is the chief.
        network: bandwidth and latency of every port.
        seed: of all random streams.
        numerics: the ledger's.
    """

    def __init__(self, devices: dict[str, Device], network: Network, seed: int, numerics: str) -> None:
        self.seed = seed
        self.network = network
        self.clock = Clock()
        self.links = SharedLinks(self.clock)
        self.ledger = Ledger(numerics)
        self.trace = Trace(seed=seed)
        self.tasks = {name: Task(name, device, network.bandwidth) for name, device in devices.items()}
        for name in self.tasks:
            self.trace.declare_lane(name)
        self.chief = next(iter(self.tasks.values()))
        self.membership = Membership(SILENCE_S)
        self.listeners: list[Callable[[Decision], None]] = []
        self.mains: dict[str, Callable[[Task], Any]] = {}  # what a task starts with, again after each restart
        self.after_step: list[Callable[[Task], None]] = []
        self.lost: list[Callable[[Task], None]] = []  # what must know at once that a task's memory is gone
        self._beating = False

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

    # -- messages -------------------------------------------------------------------------------------------------

    def send(
        self,
        source: Task,
        target: Task,
        num_bytes: float,
        arrived: Callable[[], None],
        exchange: Exchange | None = None,
    ) -> None:
        """Send bytes; `arrived` is called when the last has come, unless one of the two has died on the way."""
        if source is target:
            self.clock.call_later(0.0, lambda _: arrived())
            return
        source_incarnation, target_incarnation = source.incarnation, target.incarnation
        self.trace.total(source.name, "bytes_sent", num_bytes)

        def both_live() -> bool:
            live = source.alive and target.alive and (exchange is None or exchange.open)
            return live and source.incarnation == source_incarnation and target.incarnation == target_incarnation

        def deliver() -> None:
            if exchange is not None:
                exchange.flow = None
            if both_live():
                arrived()

        def start(_: Any) -> None:
            if not both_live():
                return
            if num_bytes <= 0:
                arrived()
                return
            flow = self.links.start([source.outward, target.inward], num_bytes, deliver)
            if exchange is not None:
                exchange.flow = flow

        self.clock.call_later(self.network.latency, start)

    def request(
        self,
        client: Task,
        server: Task,
        num_bytes: float,
        serve: Callable[[Exchange], None],
        failed: Callable[[BaseException], None],
    ) -> Exchange:
        """Ask a task for something; `serve` is called there, and answers through `respond`.

        `failed` is called instead when the server is down, or dies before its answer has arrived.
        """
        exchange = Exchange(client, server, failed)
        if not server.alive:
            self.clock.call_later(2 * self.network.latency, lambda _: self._fail(exchange))
            return exchange
        self.send(client, server, num_bytes, lambda: serve(exchange), exchange)
        return exchange

    def respond(self, exchange: Exchange, num_bytes: float, arrived: Callable[[], None]) -> None:
        """Answer a request."""

        def finish() -> None:
            exchange.close()
            arrived()

        self.send(exchange.server, exchange.client, num_bytes, finish, exchange)

    def _fail(self, exchange: Exchange) -> None:
        if exchange.open and exchange.client.alive:
            exchange.close()
            exchange.failed(UnavailableError(f"{exchange.server.name} is down: the connection was reset."))

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
        """Kill a task's process now."""
        if not task.alive:
            return
        now, incarnation = self.now, task.incarnation
        task.alive, task.down_since_s = False, now
        self.trace.instant(task.name, "crash", f"crash of {task.name}", now, incarnation=incarnation, reason=reason)
        task.local.clear()
        for listener in self.lost:
            listener(task)
        for exchange in list(task.exchanges):
            if exchange.flow is not None:
                self.links.stop(exchange.flow)
                exchange.flow = None
            if exchange.server is task and exchange.client is not task:
                self.clock.call_later(self.network.latency, lambda _, exchange=exchange: self._fail(exchange))
            else:
                exchange.close()
        self.clock.call_later(self.network.latency, lambda _: self._decide(self.membership.connection_reset(task.name, incarnation)))
        if restart_after_s is not None:
            self.clock.call_later(restart_after_s, lambda _: self.restart(task))
        if task is self.chief:
            self.clock.interrupt_driver(UnavailableError(f"{task.name} crashed at {now:.6f} s, and this program with it."))
        fibers, task.fibers = task.fibers, []
        for fiber in fibers:
            if fiber.greenlet is not _current_greenlet():
                self.clock.kill(fiber)
        for fiber in fibers:
            if fiber.greenlet is _current_greenlet():
                self.clock.kill(fiber)

    def restart(self, task: Task) -> None:
        """Start a task's process again, with the next incarnation and an empty memory."""
        if task.alive:
            return
        task.alive = True
        task.incarnation += 1
        task.free_s = self.now
        self.trace.span(task.name, "down", "down", task.down_since_s, self.now)
        self.trace.instant(task.name, "restart", f"restart of {task.name}", self.now, incarnation=task.incarnation)
        if task.name in self.mains:
            self.mains[task.name](task)
        self.register(task)

    def register(self, task: Task) -> None:
        """Tell the chief that this incarnation is there."""
        incarnation = task.incarnation
        self.send(task, self.chief, 0, lambda: self._decide(self.membership.heartbeat(task.name, incarnation, self.now)))

    # -- detection ------------------------------------------------------------------------------------------------

    def watch(self, names: Iterable[str]) -> None:
        """Begin heartbeats from these tasks to the chief."""
        for name in names:
            task = self.task(name)
            if task.alive:
                self._decide(self.membership.heartbeat(name, task.incarnation, self.now))
        if not self._beating:
            self._beating = True
            self.clock.call_later_daemon(HEARTBEAT_S, self._beat)

    def _beat(self) -> None:
        for name in self.membership.beliefs:
            task = self.tasks[name]
            if task.alive:
                self._decide(self.membership.heartbeat(name, task.incarnation, self.now))
        self._decide(self.membership.time_passed(self.now))
        self.clock.call_later_daemon(HEARTBEAT_S, self._beat)

    def _decide(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if decision.kind == "down":
                self.trace.instant(decision.task, "detect", f"{decision.task} is down", self.now, reason=decision.reason)
            for listener in list(self.listeners):
                listener(decision)

    def close(self) -> None:
        """End all tasks."""
        self.clock.close()


def _current_greenlet() -> Any:
    import greenlet

    return greenlet.getcurrent()
