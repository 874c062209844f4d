"""A task of a simulated cluster: a process with a device, a memory and an incarnation.

States: up -> down -> up with a higher incarnation. Whatever an earlier incarnation still tries (a message, an update)
has no effect: every effect names the `Life` that it comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simdist.hardware import Device, MemoryAccount
from simdist.program.cost import Cost
from simdist.simulation.kernel import Fiber
from simdist.simulation.streams import generator

if TYPE_CHECKING:
    from simdist.runtime.calls import Call, Plan

__all__ = ["Life", "Task"]


class Life:
    """One incarnation of a task, from its start to its crash."""

    __slots__ = ("alive", "incarnation")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.alive = True


class Task:
    """One task.

    Attributes:
        factors: the random factors on the time of what this incarnation computes.
        steps: steps of all its incarnations.
        free_s: when its device has done what it was given.
        slowness: factor on the time of everything that it computes.
        calls: requests in flight that it made or has to answer.
        memory: who holds its device's memory.
        plans: the routes and latencies of the operations that it has run.
        local: what this incarnation keeps in its memory: datasets, iterators, resources.
    """

    def __init__(self, name: str, device: Device) -> None:
        self.name = name
        self.device = device
        self.life = Life(0)
        self.factors = device.jitter.factors(generator(0, name))
        self.free_s = 0.0
        self.slowness = 1.0
        self.steps = 0
        self.down_since_s = 0.0
        self.fibers: list[Fiber] = []
        self.calls: dict[Call, None] = {}
        self.local: dict[Any, Any] = {}
        self.plans: dict[Any, Plan] = {}
        self.memory = MemoryAccount(device.memory, name)
        self._seconds: dict[Cost, float] = {}

    def begin(self, seed: int, incarnation: int) -> None:
        """Start an incarnation, with random streams of its own."""
        self.life = Life(incarnation)
        self.factors = self.device.jitter.factors(generator(seed, self.name, incarnation, "jitter"))

    @property
    def alive(self) -> bool:
        return self.life.alive

    @property
    def incarnation(self) -> int:
        return self.life.incarnation

    def occupy(self, now: float, cost: Cost) -> tuple[float, float]:
        """Give the device a program to run; it does one thing after the other. Returns (start, end) in seconds."""
        seconds = self._seconds.get(cost)
        if seconds is None:
            declared = cost.seconds
            seconds = self.device.seconds(cost.flops, cost.bytes_moved) if declared is None else declared
            self._seconds[cost] = seconds
        return self.occupy_for(now, seconds)

    def occupy_for(self, now: float, seconds: float) -> tuple[float, float]:
        """Like `occupy`, for work that takes so long on a task that is not slowed down."""
        start = self.free_s if self.free_s > now else now
        self.free_s = end = start + self.factors.apply(seconds) * self.slowness
        return start, end

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {'up' if self.alive else 'down'}, incarnation {self.incarnation})"
