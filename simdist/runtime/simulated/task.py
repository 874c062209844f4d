"""A task of a simulated cluster: a process with a device, a memory and an incarnation.

States: up -> down -> up with a higher incarnation. Whatever an earlier incarnation still tries (a message, an update)
has no effect: every effect names the `Incarnation` that it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from simdist.hardware import Device, MemoryAccount
from simdist.runtime.simulated.processor import Processor
from simdist.simulation.fiber import Due, Fiber

__all__ = ["Incarnation", "Sender", "Task"]


class Sender(Protocol):
    """What has messages on their way to or from a task, and must know when it dies, or when they are lost.

    Attributes:
        flows: its bytes that are on their way.
    """

    flows: list[Any]

    def silenced(self, leg: Any) -> None:
        """This message will not arrive, and nobody says so."""
        ...

    def lost(self, task: Task) -> None:
        """A task of it has died."""
        ...


class Running(Protocol):
    """What a task runs without a fiber."""

    def killed(self) -> None:
        """The task has died."""
        ...


class Incarnation:
    """One incarnation of a task, from its start to its crash.

    Attributes:
        began_s: when it started.
    """

    __slots__ = ("alive", "began_s", "incarnation")

    def __init__(self, incarnation: int, began_s: float = 0.0) -> None:
        self.incarnation = incarnation
        self.began_s = began_s
        self.alive = True


class Task:
    """One task.

    Attributes:
        processor: its own one; its device has the figures.
        processors: all of them, by place.
        steps: steps of all its incarnations.
        updates: of variables that it holds, by all its incarnations.
        slowness: factor on the time of everything that it computes.
        restart_plan: what is to start it again; another one takes its place.
        calls: requests in flight that it made or has to answer.
        sequence: how many numbered messages it has sent.
        plans: the routes and latencies of the operations that it has run.
        running: steps of this incarnation that go on without a fiber.
        held: what waits until a paused task goes on: (function, argument), in order; None where it is not paused.
        local: what this incarnation keeps in its memory: datasets, iterators, resources.
    """

    def __init__(self, name: str, device: Device) -> None:
        self.name = name
        self.device = device
        self.process = Incarnation(0)
        self.slowness = 1.0
        self._slow_factors: dict[object, float] = {}
        self.restart_plan: object = None
        self.steps = 0
        self.updates = 0
        self.down_since_s = 0.0
        self.fibers: list[Fiber] = []
        self.calls: dict[Sender, None] = {}
        self.sequence = 0
        self.local: dict[Any, Any] = {}
        self.plans: dict[Any, Any] = {}
        self.running: dict[Running, None] = {}
        self.held: list[Due] | None = None
        self.processor = Processor(name, device, self)
        self.processors = {name: self.processor}
        self.occupy = self.processor.occupy

    def begin(self, seed: int, incarnation: int, now: float = 0.0) -> None:
        """Start an incarnation, with random streams of its own."""
        self.process = Incarnation(incarnation, now)
        self.held = None
        for processor in self.processors.values():
            processor.begin(seed, incarnation)
            processor.free_s = now

    def add_processor(self, name: str, device: Device, seed: int) -> Processor:
        """One more processor, or the one that has this name already."""
        if name not in self.processors:
            self.processors[name] = Processor(name, device, self)
            self.processors[name].begin(seed, self.incarnation)
        return self.processors[name]

    def slow_by(self, factor: float) -> Callable[[], None]:
        """Multiply the time of all that begins from now on; the result takes this factor away again."""
        token = object()

        def heal() -> None:
            self._slow_factors.pop(token, None)
            self.slowness = math.prod(self._slow_factors.values(), start=1.0)

        self._slow_factors[token] = factor
        self.slowness = math.prod(self._slow_factors.values(), start=1.0)
        return heal

    @property
    def progress(self) -> int:
        """How far it has come: its steps, of a parameter server its updates."""
        return self.updates if self.name.startswith("ps:") else self.steps

    @property
    def memory(self) -> MemoryAccount:
        """Who holds the memory of its own processor."""
        return self.processor.memory

    @property
    def alive(self) -> bool:
        return self.process.alive

    @property
    def incarnation(self) -> int:
        return self.process.incarnation

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {'up' if self.alive else 'down'}, incarnation {self.incarnation})"
