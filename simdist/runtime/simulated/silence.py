"""Silence: tasks that are paused, and ways between tasks on which messages are lost. Nobody is told of either.

A paused task is alive and does nothing: its fibers are not switched to, and whatever would happen on it (timers, arrivals) is held,
in order, and happens when it goes on. What its links carry goes on. A cut loses all messages of one direction: those that are sent, and
those that are on their way.

Not simulated: a processor that stands still with its process; a kernel that was begun goes on, as on a GPU, and ends when the task goes
on, or later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Transport
from simdist.simulation.kernel import Clock

__all__ = ["Listener", "Silence"]

Heal = Callable[[], None]


class Listener(Protocol):
    """Replicas that meet in collectives, and must know what happens to each other's tasks."""

    def lost(self, task: Task) -> None:
        """A task has died."""
        ...

    def expect_silence(self) -> None:
        """From now on somebody may not come without a word."""
        ...


class Silence:
    """The pauses and cuts of one cluster.

    Args:
        clock, transport: the cluster's.
        listeners: the groups of replicas that there are.

    Attributes:
        is_expected: whether a fault was planned that makes somebody silent.
    """

    def __init__(self, clock: Clock, transport: Transport, listeners: list[Listener]) -> None:
        self.clock = clock
        self.transport = transport
        self.listeners = listeners
        self.is_expected = False
        self.changed: list[Callable[[], None]] = []  # are told that somebody has fallen silent, or may be heard again
        self._cuts: dict[object, tuple[str, str]] = {}
        self._pauses: dict[object, Any] = {}  # token -> the incarnation that is paused

    def expect(self) -> None:
        """Somebody may fall silent from now on: what would wait for ever gets a time-out."""
        if not self.is_expected:
            self.is_expected = True
            for listener in list(self.listeners):
                listener.expect_silence()

    # -- pauses ---------------------------------------------------------------------------------------------------

    def pause(self, task: Task) -> Heal:
        """Let the present incarnation of a task stand still; the result lets it go on."""
        token, process = object(), task.process
        self._pauses[token] = process
        if task.held is None:
            task.held = []
            for fiber in task.fibers:
                fiber.held = task.held
        self._tell()

        def heal() -> None:
            del self._pauses[token]
            if task.process is process and process.alive and process not in self._pauses.values():
                self._go_on(task)

        return heal

    def _go_on(self, task: Task) -> None:
        held, task.held = task.held, None
        for fiber in task.fibers:
            fiber.held = None
        for function, argument in held or ():
            self.clock.after(0.0, function, argument)
        self._tell()

    # -- cuts -----------------------------------------------------------------------------------------------------

    def cut(self, source: Task, target: Task) -> Heal:
        """Lose the messages of one direction; the result opens the way again."""
        token = object()
        self._cuts[token] = source.name, target.name
        self._block()
        self.transport.sever(source, target)
        self._tell()

        def heal() -> None:
            del self._cuts[token]
            self._block()
            self._tell()

        return heal

    def _tell(self) -> None:
        for listener in self.changed:
            listener()

    def _block(self) -> None:
        self.transport.blocked = set(self._cuts.values())

    def hears(self, source: Task, target: Task) -> bool:
        """Whether a word that one task sends now gets to another."""
        return source.process.alive and source.held is None and (source.name, target.name) not in self.transport.blocked
