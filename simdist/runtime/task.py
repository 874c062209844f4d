"""A task of a simulated cluster: a process with a device, a port, a memory and an incarnation.

States: up -> down -> up with a higher incarnation. Whatever an earlier incarnation still tries (a message, an update)
has no effect: every effect names the incarnation that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.hardware import Device
from simdist.simulation.kernel import Fiber
from simdist.simulation.network import Flow, Link

__all__ = ["Exchange", "Task"]


class Exchange:
    """A request from one incarnation to another task, until its answer has arrived or one of the two has died."""

    __slots__ = ("client", "failed", "flow", "open", "server")

    def __init__(self, client: Task, server: Task, failed: Callable[[BaseException], None]) -> None:
        self.client = client
        self.server = server
        self.failed = failed
        self.flow: Flow | None = None
        self.open = True
        client.exchanges[self] = None
        server.exchanges[self] = None

    def close(self) -> None:
        self.open = False
        self.client.exchanges.pop(self, None)
        self.server.exchanges.pop(self, None)


class Task:
    """One task. `steps` counts the steps of all its incarnations; `free_s` is when its device has done what it was given."""

    def __init__(self, name: str, device: Device, bandwidth_bytes_per_s: float) -> None:
        self.name = name
        self.device = device
        self.outward = Link(f"{name}/out", bandwidth_bytes_per_s)
        self.inward = Link(f"{name}/in", bandwidth_bytes_per_s)
        self.alive = True
        self.incarnation = 0
        self.free_s = 0.0
        self.slowness = 1.0
        self.steps = 0
        self.down_since_s = 0.0
        self.fibers: list[Fiber] = []
        self.exchanges: dict[Exchange, None] = {}
        self.local: dict[Any, Any] = {}  # what this incarnation keeps: datasets, iterators, resources

    def occupy(self, now: float, seconds: float) -> tuple[float, float]:
        """Give the device work that takes so long; it does one thing after the other. Returns (start, end)."""
        start = max(now, self.free_s)
        self.free_s = start + seconds * self.slowness
        return start, self.free_s

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {'up' if self.alive else 'down'}, incarnation {self.incarnation})"
