"""Who notices that a task has died: heartbeats to the chief, and what the trace tells of it.

The chief believes what the machine in `simdist.runtime.membership` says; here are its clock and its listeners. Heartbeats that
could change no belief are passed over by arithmetic, so that a long idle time costs nothing.

Not simulated: heartbeats need no bytes, and those of a life that the chief knows take no time on the network. Of a new life it
learns no earlier than a message could have come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from simdist.runtime.membership import Decision, Membership
from simdist.runtime.simulated.task import Life, Task
from simdist.simulation.kernel import Clock
from simdist.trace import Trace

__all__ = ["HEARTBEAT_S", "SILENCE_S", "Detection"]

HEARTBEAT_S = 1.0
SILENCE_S = 5.0


class Detection:
    """What the chief believes of other tasks, and who is told when it changes.

    Args:
        clock, trace: the cluster's.
        tasks: all of them, by name.
        latency_s: seconds that a message from a task to the chief takes.

    Attributes:
        membership: the beliefs.
        listeners: are told each change.
    """

    def __init__(self, clock: Clock, trace: Trace, tasks: Mapping[str, Task], latency_s: Callable[[Task], float]) -> None:
        self.clock = clock
        self.trace = trace
        self.tasks = tasks
        self.latency_s = latency_s
        self.membership = Membership(SILENCE_S)
        self.listeners: list[Callable[[Decision], None]] = []
        self._watched: set[str] = set()
        self._began_s: float | None = None

    def watch(self, names: Iterable[str]) -> None:
        """Begin heartbeats from these tasks to the chief."""
        for name in names:
            self._watched.add(name)
            task = self.tasks[name]
            if task.alive:
                self.heartbeat(name, task.incarnation)
        if self._began_s is None:
            self._began_s = self.clock.now
            self.clock.after_daemon(HEARTBEAT_S, self._beat)

    def heartbeat(self, name: str, incarnation: int) -> None:
        """A sign of life has come; of a task that nobody watches it says nothing."""
        if name not in self._watched:
            return
        self._decide(self.membership.heartbeat(name, incarnation, self.clock.now))

    def connection_reset(self, name: str, incarnation: int) -> None:
        """The connection to a task was closed from the other side."""
        self._decide(self.membership.connection_reset(name, incarnation))

    def _beat(self) -> None:
        for name, belief in self.membership.beliefs.items():
            life = self.tasks[name].life
            is_new = life.incarnation > belief.incarnation and self.clock.now < life.began_s + self.latency_s(self.tasks[name])
            if life.alive and not is_new:
                self.heartbeat(name, life.incarnation)
        self._decide(self.membership.time_passed(self.clock.now))
        self.clock.after_daemon(self._next_beat_s() - self.clock.now, self._beat)

    def _next_beat_s(self) -> float:
        """When the next heartbeats can change a belief; those before are passed over, as they would find what these found."""
        assert self._began_s is not None
        next_s, idle_until_s = self.clock.now + HEARTBEAT_S, self.clock.now + self.clock.idle_s()
        if idle_until_s <= next_s or not all(map(self._is_settled, self.membership.beliefs)):
            return next_s
        return max(next_s, self._began_s + math.floor((idle_until_s - self._began_s) / HEARTBEAT_S) * HEARTBEAT_S)

    def _is_settled(self, name: str) -> bool:
        """Whether neither a heartbeat of this task nor more silence can change what is believed of it."""
        belief, life = self.membership.beliefs[name], self.tasks[name].life
        return (belief.up and belief.incarnation == life.incarnation) if life.alive else not belief.up

    def _decide(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if decision.kind == "down":
                self.trace.instant(decision.task, "detect", f"{decision.task} is down", self.clock.now, reason=decision.reason)
            for listener in list(self.listeners):
                listener(decision)

    def notice(self, task: Task, life: Life, reason: str) -> None:
        """Those who train with a task have learned of its death; the trace tells it once for each life."""
        if not life.noticed:
            life.noticed = True
            self.trace.instant(task.name, "detect", f"{task.name} is down", self.clock.now, reason=reason)
