"""A call of a task to servers that has all links and devices for itself, on a clock of its own: how long it takes, before it happens.

The real clock, links and devices do not notice. Messages go as in `calls.py`, a copy of a server as in `chain.py`.

Not simulated here: jitter, faults, what others do meanwhile.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from simdist.runtime.simulated.chain import Chain
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World
from simdist.simulation.kernel import Clock
from simdist.simulation.loop import run_events
from simdist.simulation.network import Link, SharedLinks

__all__ = ["SentUpdate", "read_seconds", "update_seconds"]

A = TypeVar("A")


@dataclass(eq=False)
class SentUpdate:
    """What a server gets of an update.

    Args:
        server: its name.
        size_bytes: of the message.
        seconds: that the server computes.

    Attributes:
        is_safe: whether the next server has it too.
    """

    server: str
    size_bytes: float
    seconds: float
    is_safe: bool = False


def read_seconds(world: World, task: Task, sizes: Mapping[str, float]) -> float:
    """Seconds of a read of so many bytes of each server."""
    others = {name: size_bytes for name, size_bytes in sizes.items() if name != task.name}
    call = _LonelyCall(world, task, len(others))
    for name, size_bytes in others.items():
        call.word(task.name, name, lambda reply: call.send(reply[0], task.name, reply[1], call.ended, None), (name, size_bytes))
    return call.seconds()


def update_seconds(world: World, task: Task, updates: Sequence[SentUpdate]) -> float:
    """Seconds of an update, until all servers have confirmed it; what belongs to the task itself is applied before the rest is sent."""
    others = [update for update in updates if update.server != task.name]
    call = _LonelyUpdate(world, task, len(others))
    for update in others:
        call.send(task.name, update.server, update.size_bytes, call.arrived, update)
    return sum([update.seconds for update in updates if update.server == task.name]) + call.seconds()


class _LonelyCall:
    """Some messages, on a clock of their own.

    Args:
        world: whose routes they take.
        task: that calls.
        count: of the ends that it waits for.
    """

    def __init__(self, world: World, task: Task, count: int) -> None:
        self.world = world
        self.task = task
        self.left = count
        self.clock = Clock()
        self.gate = self.clock.gate()
        self.flows = SharedLinks(self.clock)
        self._links: dict[str, Link] = {}

    def seconds(self) -> float:
        """Let it happen, and say how long it takes."""
        if self.left:
            run_events(self.clock, self.gate, "a forecast", [], sys.maxsize)
        return self.clock.now

    def ended(self, _: object = None) -> None:
        """One of its ends."""
        self.left -= 1
        if not self.left:
            self.gate.open()

    def word(self, source: str, target: str, arrived: Callable[[A], object], argument: A) -> None:
        """Send a message without bytes."""
        self.clock.after(self.world.routes.between(source, target).latency_s, arrived, argument)

    def send(self, source: str, target: str, size_bytes: float, arrived: Callable[[A], object], argument: A) -> None:
        """Send bytes."""
        self.word(source, target, lambda _: self._flow(source, target, size_bytes, arrived, argument), None)

    def _flow(self, source: str, target: str, size_bytes: float, arrived: Callable[[A], object], argument: A) -> None:
        links = tuple([self._idle(link) for link in self.world.routes.between(source, target).links if link.bandwidth_bytes_per_s])
        if links and size_bytes:
            self.flows.start(links, size_bytes, arrived, argument)
        else:
            arrived(argument)

    def _idle(self, link: Link) -> Link:
        """A link as it is when it is idle."""
        return self._links.setdefault(link.name, Link(link.name, link.bandwidth_bytes_per_s))


class _LonelyUpdate(_LonelyCall):
    """An update; servers apply their parts one after the other, and repeat those of others whose copy they keep."""

    def __init__(self, world: World, task: Task, count: int) -> None:
        super().__init__(world, task, count)
        self._free_s: dict[str, float] = {}
        self._unsafe: dict[str, deque[SentUpdate]] = {}  # of each server, in their order

    def arrived(self, update: SentUpdate) -> None:
        """A server has received its part."""
        self._compute(update.server, update.seconds, self._applied, update)

    def _compute(self, name: str, seconds: float, done: Callable[[SentUpdate], object], update: SentUpdate) -> None:
        now = self.clock.now
        self._free_s[name] = end_s = max(self._free_s.get(name, 0.0), now) + seconds
        self.clock.after(end_s - now, done, update)

    def _applied(self, update: SentUpdate) -> None:
        chain = self.world.recoveries.get(update.server)
        if not isinstance(chain, Chain):
            self._confirm(update)
            return
        self._unsafe.setdefault(update.server, deque()).append(update)
        self.send(update.server, chain.follower.name, update.size_bytes, lambda _: self._copied(update, chain.follower.name), None)

    def _copied(self, update: SentUpdate, follower: str) -> None:
        self._compute(follower, update.seconds, lambda _: self.word(follower, update.server, self._safe, update), update)

    def _safe(self, update: SentUpdate) -> None:
        update.is_safe = True
        log = self._unsafe[update.server]
        while log and log[0].is_safe:
            self._confirm(log.popleft())

    def _confirm(self, update: SentUpdate) -> None:
        self.word(update.server, self.task.name, self.ended, None)
