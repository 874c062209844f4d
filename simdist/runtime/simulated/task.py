"""A task of a simulated cluster: a process with a device, a memory and an incarnation.

States: up -> down -> up with a higher incarnation. A late effect of an earlier incarnation (a message, an update)
is dropped: every effect names its `Incarnation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from simdist.hardware import Device, MemoryAccount
from simdist.runtime.simulated.processor import Processor
from simdist.simulation.fiber import Due
from simdist.simulation.kernel import Fiber
from simdist.simulation.network import Flow, QuietFlows
from simdist.trace.records import NO_CAUSE

__all__ = ["Incarnation", "RestartPlan", "Sender", "Task"]


class Sender(Protocol):
    """The sender of messages to or from a task, which must know when the task dies, or when they are lost.

    Attributes:
        flows: its bytes that are on their way.
    """

    flows: list[Flow | QuietFlows]

    def repeated(self, leg: Any) -> None:
        """This message may arrive more than once."""
        ...

    def silenced(self, leg: Any) -> None:
        """This message will not arrive, and no error says so."""
        ...

    def lost(self, task: Task) -> None:
        """A task of this sender has died."""
        ...


class Running(Protocol):
    """What runs on a task without a fiber."""

    def killed(self) -> None:
        """The task has died."""
        ...


class Incarnation:
    """One incarnation of a task, from its start to its crash.

    Attributes:
        began_s: when it started.
        lost: whether it ended with its machine, so that no connection was reset.
    """

    __slots__ = ("alive", "began_s", "incarnation", "lost")

    def __init__(self, incarnation: int, began_s: float = 0.0) -> None:
        self.incarnation = incarnation
        self.began_s = began_s
        self.alive = True
        self.lost = False


@dataclass(frozen=True, eq=False)
class RestartPlan:
    """A task is to be started again.

    Attributes:
        at_s: when.
    """

    at_s: float


class Task:
    """One task.

    Attributes:
        processor: its own one; its device has the figures.
        processors: all of them, by place.
        steps: steps of all its incarnations.
        broken_steps: those that it has begun, and that did not end because another task had died.
        draws: those of them that drew random numbers: each of these has a number of its own, whatever was evaluated in between. A closure
            that is run again keeps its numbers, and no worker counts it once more.
        updates: of variables that it holds, by all its incarnations.
        slowness: factor on the time of everything that it computes.
        restart_plan: says when it is started again; another one takes its place; None: nothing.
        calls: requests in flight that it made or has to answer.
        plans: the routes and latencies of the operations that it has run.
        trouble: the number of the last record of a fault on it.
        running: steps of this incarnation that go on without a fiber.
        held: what waits until a paused task goes on: (function, argument), in order; None where it is not paused.
            Of one whose machine is gone: what will never happen.
        held_since_s: when its last pause began.
        local: what this incarnation keeps in its memory: datasets, iterators, resources.
        machine: the number of machines on which its incarnations have run, and whose disks were lost, before the present one.
    """

    def __init__(self, name: str, device: Device) -> None:
        self.name = name
        self.device = device
        self.process = Incarnation(0)
        self.slowness = 1.0
        self._slow_factors: dict[object, float] = {}
        self.restart_plan: RestartPlan | None = None
        self.steps = 0
        self.broken_steps = 0
        self.draws = 0
        self.updates = 0
        self.down_since_s = 0.0
        self.fibers: list[Fiber] = []
        self.calls: dict[Sender, None] = {}
        self.trouble = NO_CAUSE
        self.local: dict[Hashable, Any] = {}
        self.plans: dict[Hashable, Any] = {}
        self.running: dict[Running, None] = {}
        self.held: list[Due] | None = None
        self.held_since_s = 0.0
        self.machine = 0
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
        """Add a processor, or return the one that has this name already."""
        if name not in self.processors:
            self.processors[name] = Processor(name, device, self)
            self.processors[name].begin(seed, self.incarnation)
        return self.processors[name]

    def slow_by(self, factor: float) -> Callable[[], None]:
        """Multiply the duration of all work that begins from now on; the result takes this factor away again."""
        token = object()

        def heal() -> None:
            self._slow_factors.pop(token, None)
            self.slowness = math.prod(self._slow_factors.values(), start=1.0)

        self._slow_factors[token] = factor
        self.slowness = math.prod(self._slow_factors.values(), start=1.0)
        return heal

    @property
    def progress(self) -> int:
        """The progress of the task: its steps, for a parameter server its updates."""
        return self.updates if self.name.startswith("ps:") else self.steps

    @property
    def memory(self) -> MemoryAccount:
        """The memory of the task's own processor: bytes by owner."""
        return self.processor.memory

    @property
    def alive(self) -> bool:
        return self.process.alive

    @property
    def incarnation(self) -> int:
        return self.process.incarnation

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {'up' if self.alive else 'down'}, incarnation {self.incarnation})"
