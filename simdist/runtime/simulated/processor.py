"""A processor of a task: it computes one kernel after the other, and has a memory.

A task has one processor of its own; a strategy may give it more (``worker:0/gpu:1``).
"""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real
from typing import Protocol

from simdist.arguments import END_S
from simdist.cost.flops import Cost
from simdist.hardware import Device, MemoryAccount
from simdist.randomness import generator
from simdist.simulation.endless import no_time_to_compute
from simdist.trace.records import NO_CAUSE

__all__ = ["Processor"]


class Owner(Protocol):
    """The task of a processor.

    Attributes:
        slowness: factor on the time of everything that it computes.
    """

    slowness: float


class Processor:
    """One processor.

    Args:
        name: its name: that of its task, or ``TASK/gpu:0``.
        device: how fast it is.
        task: the task that it belongs to.

    Attributes:
        factors: the random factors on the time of what this incarnation computes.
        free_s: when it has done what it was given.
        late_s: when something has ended last that ended later than it was to, because its process was paused.
        memory: who holds its memory.
        last: the number of the last record of the step that it takes, or of what it was given: the cause of what comes next.
        kinds: kinds of spans on its lane, by what is computed: an operation would keep its variables.
    """

    def __init__(self, name: str, device: Device, task: Owner) -> None:
        self.name = name
        self.device = device
        self.owner = task
        self.factors = device.jitter.factors(generator(0, name))
        self.free_s = 0.0
        self.late_s = 0.0
        self.memory = MemoryAccount(device.memory, name)
        self.last = NO_CAUSE
        self.kinds: dict[Hashable, int] = {}
        self._seconds: dict[Cost, float] = {}

    def begin(self, seed: int, incarnation: int) -> None:
        """Start an incarnation of the task, with random streams of its own."""
        self.factors = self.device.jitter.factors(generator(seed, self.name, incarnation, "jitter"))

    def occupy(self, now: float, cost: Cost) -> tuple[float, float]:
        """Run a program; one runs after the other. Returns (start, end) in seconds."""
        seconds = self._seconds.get(cost)
        if seconds is None:
            declared = cost.seconds
            seconds = self._modelled(cost) if declared is None else declared
            self._seconds[cost] = seconds
        return self.occupy_for(now, seconds)

    def _modelled(self, cost: Cost) -> float:
        """What the device says, which may be of a class of a user's own."""
        seconds: object = self.device.seconds(cost.flops, cost.bytes_moved)
        if not isinstance(seconds, Real):
            raise TypeError(f"{type(self.device).__name__}.seconds(flops, bytes) gave {seconds!r}; expected a number of seconds.")
        return float(seconds)

    def occupy_for(self, now: float, seconds: float) -> tuple[float, float]:
        """Like `occupy`, for work with a duration of its own, before slowdowns of the task.

        Raises:
            InvalidArgumentError: a device, its jitter or its slowness gives no time.
        """
        start = self.free_s if self.free_s > now else now
        busy_s = self.factors.apply(seconds) * self.owner.slowness
        if not 0.0 <= busy_s < END_S:
            raise no_time_to_compute(self.name, busy_s)
        self.free_s = end = start + busy_s
        return start, end

    def began(self, start: float, end: float) -> float:
        """The time at which work began that may have ended late, as one runs after the other; it differs from `start` only after pauses."""
        return min(max(start, self.late_s), end)
