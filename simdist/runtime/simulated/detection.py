"""Who notices that a task is gone: heartbeats to the chief, and what the trace tells of it.

Every watched task sends the chief a word each `HEARTBEAT_S`; one that was started again registers at once. The chief believes what the
machine in `simdist.runtime.membership` says; here are its clock and its listeners. It knows nothing else: a task that is paused, or cut
off from it, is down for it after `SILENCE_S`.

Heartbeats that could change no belief are not played but passed over by arithmetic, so that a long idle time costs nothing. While
somebody who is believed to be up is silent, the chief's clock counts as something that can end a wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from simdist.runtime.membership import Decision, Membership
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.simulation.kernel import Clock
from simdist.trace import Trace

__all__ = ["HEARTBEAT_S", "SILENCE_S", "Detection", "Mail"]

HEARTBEAT_S = 1.0
SILENCE_S = 5.0


class Mail(Protocol):
    """How heartbeats get to the chief."""

    def hears(self, task: Task) -> bool:
        """Whether a word that a task sends now gets to the chief."""
        ...

    def latency_s(self, task: Task) -> float:
        """Seconds until it has arrived."""
        ...

    def post(self, task: Task, arrived: Callable[[Incarnation], None]) -> None:
        """Send the incarnation of a task to the chief, which may end a wait."""
        ...


class Detection:
    """What the chief believes of other tasks, and who is told when it changes.

    Args:
        clock, trace: the cluster's.
        tasks: all of them, by name.
        mail: carries heartbeats.

    Attributes:
        membership: the beliefs.
        listeners: are told each change.
    """

    def __init__(self, clock: Clock, trace: Trace, tasks: Mapping[str, Task], mail: Mail) -> None:
        self.clock = clock
        self.trace = trace
        self.tasks = tasks
        self.mail = mail
        self.membership = Membership(SILENCE_S)
        self.listeners: list[Callable[[Decision], None]] = []
        self._watched: dict[str, None] = {}
        self._began_s: float | None = None
        self._noticed: set[tuple[str, int]] = set()  # incarnations of which the trace tells that they are gone

    def watch(self, names: Iterable[str]) -> None:
        """Begin heartbeats from these tasks to the chief."""
        for name in names:
            self._watched[name] = None
            task = self.tasks[name]
            if task.alive:
                self.heartbeat(name, task.incarnation)
        if self._began_s is None:
            self._began_s = self.clock.now
            self.clock.after_daemon(HEARTBEAT_S, self._beat)

    def register(self, task: Task) -> None:
        """A task that was started again tells the chief that it is there."""
        self.mail.post(task, lambda process: self.heartbeat(task.name, process.incarnation))

    def heartbeat(self, name: str, incarnation: int) -> None:
        """A sign of life has come; of a task that nobody watches it says nothing."""
        if name in self._watched:
            self._decide(self.membership.heartbeat(name, incarnation, self.clock.now))

    def connection_reset(self, name: str, incarnation: int) -> None:
        """The connection to a task was closed from the other side."""
        self._decide(self.membership.connection_reset(name, incarnation))

    def expect_change(self) -> None:
        """Somebody has fallen silent, or may be heard again: waits may count on the next beat, which finds that out."""
        if self._began_s is not None:
            self.clock.after(HEARTBEAT_S, lambda _: None)

    # -- the beat -------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        for name in self._watched:
            task = self.tasks[name]
            if not self.mail.hears(task):
                continue
            if self._is_known(task):
                # What it says is known: it is only heard of once more.
                self.membership.beliefs[name].heard_s = self.clock.now + self.mail.latency_s(task)
            elif self.clock.now >= task.process.began_s + self.mail.latency_s(task):
                self.mail.post(task, lambda process, name=name: self.heartbeat(name, process.incarnation))
        self._decide(self.membership.time_passed(self.clock.now))
        if any(map(self._is_silent, self.membership.beliefs)):
            self.clock.after(HEARTBEAT_S, lambda _: self._beat())
        else:
            self.clock.after_daemon(self._next_beat_s() - self.clock.now, self._beat)

    def _next_beat_s(self) -> float:
        """When the next heartbeats can change a belief; those before are passed over, as they would find what these found."""
        assert self._began_s is not None
        next_s, idle_until_s = self.clock.now + HEARTBEAT_S, self.clock.now + self.clock.idle_s()
        if idle_until_s <= next_s or not all(map(self._is_settled, self.membership.beliefs)):
            return next_s
        # The last one before anything happens: what happens at the moment of a heartbeat may come before it.
        return max(next_s, self._began_s + (math.ceil((idle_until_s - self._began_s) / HEARTBEAT_S) - 1) * HEARTBEAT_S)

    def _is_known(self, task: Task) -> bool:
        """Whether the chief believes of a task what is so: that this incarnation is up."""
        belief = self.membership.beliefs.get(task.name)
        return belief is not None and belief.up and belief.incarnation == task.incarnation

    def _is_silent(self, name: str) -> bool:
        """Whether a task that is believed to be up says nothing."""
        return self.membership.beliefs[name].up and not self.mail.hears(self.tasks[name])

    def _is_settled(self, name: str) -> bool:
        """Whether neither a heartbeat of this task nor more silence can change what is believed of it."""
        task = self.tasks[name]
        return self._is_known(task) if self.mail.hears(task) else not self.membership.beliefs[name].up

    # -- decisions ------------------------------------------------------------------------------------------------

    def _decide(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            process = decision.task, decision.incarnation
            if decision.kind == "up":
                self._noticed.discard(process)
            elif process not in self._noticed:
                self._noticed.add(process)
                self.trace.instant(decision.task, "detect", f"{decision.task} is down", self.clock.now, reason=decision.reason)
            for listener in list(self.listeners):
                listener(decision)

    def notice(self, task: str, process: Incarnation, reason: str) -> None:
        """Those who train with a task have learned of its death; the trace tells it once for each life."""
        if (task, process.incarnation) not in self._noticed:
            self._noticed.add((task, process.incarnation))
            self.trace.instant(task, "detect", f"{task} is down", self.clock.now, reason=reason)
