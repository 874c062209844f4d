"""Silent failures: tasks that are paused, and routes between tasks on which messages are lost. No task is notified of either.

A paused task is alive and does nothing: its fibers do not run, and its events (timers, arrivals) are held, in order, until it goes on.
Its links go on, and a kernel of a step that was begun, as on a GPU: it ends when the task goes on, or later. Updates that a server has
received stand still with its process. A cut loses all messages of one direction: those that are sent, and those that are on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.transport import Transport
from simdist.simulation.kernel import Clock

__all__ = ["Listener", "Silence"]

Heal = Callable[[], None]


class Listener(Protocol):
    """A group of replicas that must know what happens to the tasks of its members."""

    def lost(self, task: Task) -> None:
        """A task has died."""
        ...

    def expect_silence(self) -> None:
        """From now on a replica may fail silently."""
        ...


class Silence:
    """The pauses and partitions of one cluster.

    Args:
        clock, transport: the cluster's.
        listeners: the groups of replicas that there are.

    Attributes:
        is_expected: whether a fault was planned that makes a task silent.
        ends_s: the second at which the last pause or partition ends that has begun, and whose end is known.
        expecting: are called when the first one is planned, while nothing is silent yet.
    """

    def __init__(self, clock: Clock, transport: Transport, listeners: list[Listener]) -> None:
        self.clock = clock
        self.transport = transport
        self.listeners = listeners
        self.is_expected = False
        self.ends_s = 0.0
        self.expecting: list[Callable[[], None]] = []
        self.changed: list[Callable[[], None]] = []  # are called when a task has fallen silent, or may be heard again
        self.went_on: list[Callable[[Task, float], None]] = []  # are called with a task whose pause ends, and when that began
        self._cuts: dict[object, tuple[str, str]] = {}
        self._pauses: dict[object, Incarnation] = {}  # token -> the incarnation that is paused

    def expect(self) -> None:
        """From now on a task may fall silent: a wait without an end gets a time-out."""
        if not self.is_expected:
            self.is_expected = True
            for listener in list(self.listeners):
                listener.expect_silence()
            for expect in self.expecting:
                expect()

    # -- pauses ---------------------------------------------------------------------------------------------------

    def pause(self, task: Task) -> Heal:
        """Pause the present incarnation of a task; the result lets it go on."""
        token, process = object(), task.process
        self._pauses[token] = process
        if task.held is None:
            task.held, task.held_since_s = [], self.clock.now
            for fiber in task.fibers:
                fiber.held = task.held
        for listener in list(self.listeners):
            listener.expect_silence()
        self.tell()

        def heal() -> None:
            del self._pauses[token]
            if task.process is process and process.alive and process not in self._pauses.values():
                self._go_on(task)

        return heal

    def _go_on(self, task: Task) -> None:
        held, task.held = task.held, None
        for fiber in task.fibers:
            fiber.held = None
        for listener in self.went_on:
            listener(task, task.held_since_s)
        for function, argument in held or ():
            self.clock.after(0.0, function, argument)
        self.tell()

    # -- cuts -----------------------------------------------------------------------------------------------------

    def cut(self, source: Task, target: Task) -> Heal:
        """Lose the messages of one direction; calling the result ends that."""
        token = object()
        self._cuts[token] = source.name, target.name
        self._block()
        self.transport.sever(source, target)
        self.tell()

        def heal() -> None:
            del self._cuts[token]
            self._block()
            self.tell()

        return heal

    def tell(self) -> None:
        """A task has fallen silent, or may be heard again."""
        for listener in self.changed:
            listener()

    def _block(self) -> None:
        self.transport.blocked = set(self._cuts.values())

    def hears(self, source: Task, target: Task) -> bool:
        """Whether a heartbeat that one task sends now may get to another."""
        if not source.process.alive or source.held is not None or (source.name, target.name) in self.transport.blocked:
            return False
        disturbances = self.transport.disturbances
        return not (disturbances.pairs and disturbances.loses_all(source.name, target.name, "heartbeat"))
