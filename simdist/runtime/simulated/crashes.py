"""Crashes and restarts: how the tasks of a world die, with what they hold, and start again.

A crash kills a process: its fibers end, its memory is gone, its connections are reset at once, so that every task that talked to
it detects it one latency later. A message of a dead incarnation has no effect, wherever it is.

Invariants: all that a crash does happens at one instant, the task being down before anything else hears of it; fibers end before steps
without fibers, and a crash of the caller's own task ends the caller last.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.errors import UnavailableError
from simdist.runtime.simulated.detection import Detection
from simdist.runtime.simulated.disks import Disks
from simdist.runtime.simulated.legs import Leg
from simdist.runtime.simulated.routes import Routes
from simdist.runtime.simulated.server_loop import ServerLoop
from simdist.runtime.simulated.server_recovery import SERVER_RESTART_S, ServerRecovery
from simdist.runtime.simulated.silence import Listener, Silence
from simdist.runtime.simulated.task import RestartPlan, Task
from simdist.runtime.simulated.transport import Transport
from simdist.runtime.state import GroupStates
from simdist.simulation.kernel import Clock, current_fiber
from simdist.trace import Trace

__all__ = ["CrashesAndRestarts"]


class CrashesAndRestarts:
    """The part of a world that ends the processes of tasks and begins new ones.

    Attributes:
        chief_is_launched: whether the program of the chief is a launched main, and not the driver.
        mains: what a task does again after a restart.
        recoveries: of servers whose variables survive a crash.
        listeners: groups of replicas; each removes itself.
    """

    seed: int
    clock: Clock
    trace: Trace
    transport: Transport
    routes: Routes
    states: GroupStates
    servers: dict[str, ServerLoop]
    disks: Disks
    silence: Silence
    detection: Detection
    chief: Task
    chief_is_launched: bool
    mains: dict[str, list[Callable[[Task], None]]]
    recoveries: dict[str, ServerRecovery]
    listeners: list[Listener]

    @property
    def now(self) -> float:
        return self.clock.now

    def crash(self, task: Task, restart_after_s: float | None = None, reason: str = "fault", keep_disk: bool = True) -> None:
        """Kill a task's process now; if it is down already, what was said of its restart is replaced.

        Without `keep_disk` its machine is given back: it starts again on another one, whose disk is empty.
        """
        self._die(task, "crash", f"crash of {task.name}", restart_after_s, reason, not keep_disk)

    def lose_host(self, task: Task, restart_after_s: float | None = None, reason: str = "fault") -> None:
        """Lose a task's machine now: as a crash, but no connection is reset, also for messages that arrive there later.

        If the process is dead already, its restart is replaced, and its disk is lost.
        """
        is_up = task.alive
        if is_up:
            task.process.lost = True
        self._die(task, "lose_host", f"{task.name}'s machine is lost", restart_after_s, reason, True)
        if is_up:
            for transfers in list(self.transport.collectives):
                transfers.host_lost(task)
            self.silence.tell()

    def end(self, task: Task) -> None:
        """End the process of a task that has left the cluster."""
        self._die(task, "resize", f"{task.name} has ended", None, "it has left")

    def _die(self, task: Task, how: str, text: str, restart_after_s: float | None, reason: str, disk_lost: bool = False) -> None:
        task.machine += int(disk_lost)
        now, incarnation, is_told = self.now, task.incarnation, not task.process.lost
        if not task.alive:
            self.trace.instant(task.name, how, f"{text}, which is down", now, cause=task.trouble, incarnation=incarnation, reason=reason)
            self._plan_restart(task, restart_after_s)
            if disk_lost:
                self.disks.died(task, disk_lost)
            return
        task.process.alive, task.down_since_s, task.held = False, now, None if is_told else []
        task.trouble = self.trace.instant(task.name, how, text, now, incarnation=incarnation, reason=reason)
        task.local.clear()
        for processor in task.processors.values():
            processor.memory.clear()
        self.servers[task.name].died()
        for recovery in self.recoveries.values():
            recovery.died(task)
        self.states.lose(task.name)
        for listener in list(self.listeners) if is_told else ():
            listener.lost(task)
        calls, task.calls = task.calls, {}
        for call in calls:
            call.lost(task)
        reset = self.routes.word(task, self.chief, "reset", incarnation)
        for late_s in self.transport.fates(reset) if is_told else ():
            self.clock.after(reset.latency_s + late_s, self._connection_reset, (reset, late_s))
        self._plan_restart(task, restart_after_s)
        fibers, task.fibers = task.fibers, []
        for fiber in fibers:
            if fiber is not current_fiber():
                self.clock.kill(fiber)
        for step in list(task.running):
            step.killed()
        self.disks.died(task, disk_lost)
        if task is self.chief and not self.chief_is_launched:
            self.tell_driver(
                UnavailableError(f"{task.name} {'crashed' if is_told else 'was lost'} at {now:.6f} s, and this program with it.")
            )
        for fiber in fibers:
            if fiber is current_fiber():
                self.clock.kill(fiber)

    def _connection_reset(self, what: tuple[Leg, float]) -> None:
        reset, late_s = what
        if self.transport.arrives(reset, late_s):
            self.detection.connection_reset(reset.source.name, reset.content)

    def _plan_restart(self, task: Task, delay_s: float | None) -> None:
        if delay_s is None and task.name in self.recoveries:
            delay_s = SERVER_RESTART_S
        task.restart_plan = plan = None if delay_s is None else RestartPlan(self.now + delay_s)
        if delay_s is not None:
            self.clock.after(delay_s, lambda _: task.restart_plan is plan and self.restart(task))

    def restart(self, task: Task) -> None:
        """Restart a task's process, with the next incarnation and an empty memory."""
        if task.alive:
            return
        task.begin(self.seed, task.incarnation + 1, self.now)
        down = self.trace.span(task.name, "down", "down", task.down_since_s, self.now, cause=task.trouble)
        text, incarnation = f"restart of {task.name}", task.incarnation
        task.trouble = self.trace.instant(task.name, "restart", text, self.now, cause=task.trouble, incarnation=incarnation)
        for processor in task.processors.values():
            processor.last = down
        for main in list(self.mains[task.name]):
            main(task)
        self.detection.register(task)

    def tell_driver(self, error: BaseException) -> None:
        """Raise an error in the notebook: from its blocking call, or at once where it runs itself."""
        if not self.clock.is_driving:
            raise error
        self.clock.interrupt_driver(error)
