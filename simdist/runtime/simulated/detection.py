"""Failure detection: heartbeats to the chief, and the instants of the trace that tell it.

Every watched task sends the chief a heartbeat each `HEARTBEAT_S`; one that was restarted registers at once. The beliefs of the chief are
decided in `simdist.runtime.membership`; its clock and its listeners are here. The chief has no other knowledge: a task that is paused, or
cut off, is down for it after `SILENCE_S`.

Heartbeats that could change no belief are skipped by arithmetic, so that a long idle time costs nothing. While
a task that is believed to be up is silent, the chief's clock counts as something that can end a wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, assert_never

from simdist.arguments import END_S
from simdist.runtime.membership import MemberChange, MemberDecision, Membership
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.simulation.kernel import Clock
from simdist.trace import Trace

__all__ = ["HEARTBEAT_S", "SILENCE_S", "Detection", "Mail"]

HEARTBEAT_S = 1.0
SILENCE_S = 5.0

# On so many beats of tasks that are heard by chance a wait may count; then it is over that nothing else can end.
PATIENCE = 100_000


class Mail(Protocol):
    """The protocol by which heartbeats reach the chief."""

    def hears(self, task: Task) -> bool:
        """Whether a message without bytes that a task sends now reaches the chief."""
        ...

    def latency_s(self, task: Task) -> float:
        """Seconds until a heartbeat has arrived."""
        ...

    def is_uncertain(self, task: Task) -> bool:
        """Whether a heartbeat of a task may be lost or late, so that each has to be sent."""
        ...

    def post(self, task: Task, arrived: Callable[[Incarnation], None], is_awaited: bool = True) -> None:
        """Send the incarnation of a task to the chief, which may end a wait if it `is_awaited`."""
        ...


class Detection:
    """The chief's beliefs about other tasks, and the listeners that get each change.

    Args:
        clock, trace: the cluster's.
        tasks: all of them, by name.
        mail: carries heartbeats.

    Attributes:
        membership: the beliefs.
        listeners: are called with each change.
    """

    def __init__(self, clock: Clock, trace: Trace, tasks: Mapping[str, Task], mail: Mail) -> None:
        self.clock = clock
        self.trace = trace
        self.tasks = tasks
        self.mail = mail
        self.membership = Membership(SILENCE_S)
        self.listeners: list[Callable[[MemberDecision], None]] = []
        self.patience = PATIENCE
        self._watched: dict[str, None] = {}
        self._began_s: float | None = None
        self._joining: set[str] = set()  # of whom nothing was heard yet
        self._noticed: dict[str, set[int]] = {}  # by task, incarnations of which the trace tells that they are gone

    def watch(self, names: Iterable[str]) -> None:
        """Begin heartbeats from these tasks to the chief."""
        for name in names:
            self._watched[name] = None
            task = self.tasks[name]
            if name in self._joining:
                continue  # its registration is on its way
            if task.alive or task.process.lost:  # of a machine that is gone nobody knows yet
                self.heartbeat(name, task.incarnation)
        if self._began_s is None:
            self._began_s = self.clock.now
            self.clock.after_daemon(HEARTBEAT_S, self._beat)

    def join(self, task: Task) -> None:
        """A new task registers at the chief, which has not heard of it before."""
        self._joining.add(task.name)
        self.register(task)

    def forget(self, task: Task) -> None:
        """A task leaves: nothing is expected of it any more."""
        self._watched.pop(task.name, None)
        self.membership.beliefs.pop(task.name, None)

    def register(self, task: Task) -> None:
        """Register a task at the chief after a start."""
        self.mail.post(task, lambda process: self.heartbeat(task.name, process.incarnation))

    def heartbeat(self, name: str, incarnation: int) -> None:
        """A heartbeat has arrived; one of a task that is not watched changes nothing."""
        self._joining.discard(name)
        if name in self._watched:
            self._decide(self.membership.heartbeat(name, incarnation, self.clock.now))

    def connection_reset(self, name: str, incarnation: int) -> None:
        """The connection to a task was closed from the other side."""
        self._decide(self.membership.connection_reset(name, incarnation))

    def expect_change(self) -> None:
        """A task has fallen silent, or may be heard again: waits may count on the next heartbeat, which detects it."""
        if self._began_s is not None:
            self.clock.after(HEARTBEAT_S, lambda _: None)

    # -- the beat -------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        for name in self._watched:
            task = self.tasks[name]
            if not self.mail.hears(task):
                continue
            is_known = self._is_known(task)
            if self.mail.is_uncertain(task):
                self.mail.post(task, lambda process, name=name: self.heartbeat(name, process.incarnation), not is_known)
            elif is_known:
                # What it says is known: it is only heard of once more.
                self.membership.heartbeat(name, task.incarnation, self.clock.now + self.mail.latency_s(task))
            elif self.clock.now >= task.process.began_s + self.mail.latency_s(task):
                self.mail.post(task, lambda process, name=name: self.heartbeat(name, process.incarnation))
        self._decide(self.membership.time_passed(self.clock.now))
        if any(map(self._is_silent, self.membership.beliefs)):
            self.clock.after(HEARTBEAT_S, lambda _: self._beat())
        else:
            self.clock.after_daemon(self._next_beat_s() - self.clock.now, self._beat)

    def _next_beat_s(self) -> float:
        """The time of the next heartbeats that can change a belief; earlier ones are skipped, because they cannot."""
        assert self._began_s is not None
        next_s, idle_until_s = self.clock.now + HEARTBEAT_S, min(self.clock.now + self.clock.idle_s(), END_S)
        if idle_until_s <= next_s or not all(map(self._is_settled, self.membership.beliefs)):
            return next_s
        # The last one before anything happens: what happens at the moment of a heartbeat may come before it.
        return max(next_s, self._began_s + (math.ceil((idle_until_s - self._began_s) / HEARTBEAT_S) - 1) * HEARTBEAT_S)

    def _is_known(self, task: Task) -> bool:
        """Whether the chief's belief about a task is true: this incarnation is up."""
        belief = self.membership.beliefs.get(task.name)
        return belief is not None and belief.up and belief.incarnation == task.incarnation

    def _is_silent(self, name: str) -> bool:
        """Whether a task that is believed to be up says nothing, or the chief cannot know."""
        belief, task = self.membership.beliefs[name], self.tasks[name]
        if not self.mail.hears(task):
            return belief.up
        # Where heartbeats get lost by chance, or late, the next beats may change what is believed.
        if self.patience and self.mail.is_uncertain(task) and (not belief.up or self.clock.now - belief.heard_s > 2 * HEARTBEAT_S):
            self.patience -= 1
            return True
        return False

    def _is_settled(self, name: str) -> bool:
        """Whether neither a heartbeat of this task nor more silence can change the belief about it."""
        task = self.tasks[name]
        if self.mail.is_uncertain(task) and self.mail.hears(task):
            return False
        return self._is_known(task) if self.mail.hears(task) else not self.membership.beliefs[name].up

    # -- decisions ------------------------------------------------------------------------------------------------

    def _decide(self, decisions: list[MemberDecision]) -> None:
        for decision in decisions:
            match decision.kind:
                case MemberChange.UP:
                    self._noticed.get(decision.task, set[int]()).discard(decision.incarnation)
                case MemberChange.DOWN:
                    self._note_down(decision.task, decision.incarnation, decision.reason)
                    decision = replace(decision, cause=self.tasks[decision.task].trouble)
                case _:
                    assert_never(decision.kind)
            for listener in list(self.listeners):
                listener(decision)

    def has_noticed(self, task: str, incarnation: int) -> bool:
        """Whether the death of this incarnation of a task, or of a later one, is known."""
        return any(number >= incarnation for number in self._noticed.get(task, ()))

    def notice(self, task: str, process: Incarnation, reason: str) -> None:
        """The members of a group have learned of a task's death; the trace has one instant for each incarnation."""
        if not self.has_noticed(task, process.incarnation):
            self._note_down(task, process.incarnation, reason)

    def _note_down(self, task: str, incarnation: int, reason: str) -> None:
        noticed = self._noticed.setdefault(task, set())
        if incarnation not in noticed:
            noticed.add(incarnation)
            trouble = self.tasks[task].trouble
            self.tasks[task].trouble = self.trace.instant(task, "detect", f"{task} is down", self.clock.now, cause=trouble, reason=reason)
