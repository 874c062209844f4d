"""A small simulated world for tests of its parts: slow links, known latencies, stand-ins for servers and clients."""

from __future__ import annotations

from typing import Any

from simdist.hardware import Device, Network
from simdist.runtime.simulated.calls import Call, CallPlan, ServerCall
from simdist.runtime.simulated.world import World

__all__ = ["BANDWIDTH", "LATENCY_S", "Client", "Server", "part", "world"]

LATENCY_S, BANDWIDTH = 0.5, 1000.0
TASKS = ("chief:0", "worker:0", "worker:1", "ps:0", "ps:1")


def world(device: Device | None = None) -> World:
    """Half a second to any other task, and a thousand bytes a second."""
    return World({task: device or Device() for task in TASKS}, Network(bandwidth=BANDWIDTH, latency=LATENCY_S), 0, "eager")


class Server:
    """Answers reads with what it has, and writes down which updates it was sent."""

    def __init__(self, there: World) -> None:
        self.world = there
        self.has: dict[int, Any] = {}
        self.asked_s: list[float] = []
        self.received: list[tuple[float, Any, ServerCall]] = []
        self.error: Any = None

    def answer(self, groups: Any, found: list[Any], versions: list[int]) -> Any:
        self.asked_s.append(self.world.now)
        for group, device in groups:
            found[device], versions[device] = self.has[group]
        return self.error

    def receive(self, push: Any, part: ServerCall, process: Any) -> None:
        self.received.append((self.world.now, push, part))


class Client:
    """Writes down how calls ended, and when."""

    def __init__(self, there: World) -> None:
        self.world = there
        self.ended: list[tuple[float, BaseException | None]] = []

    def answered(self, call: Call) -> None:
        self.ended.append((self.world.now, None))

    def unanswered(self, call: Call, error: BaseException) -> None:
        self.ended.append((self.world.now, error))


def part(there: World, name: str, server: Any, size_bytes: float, groups: Any = (), update: Any = None, device: int = 0) -> ServerCall:
    """What worker:0 wants of a server: to read (`groups`), or to push."""
    made, routes = ServerCall(server, groups, update, device), there.routes
    client, task = there.tasks["worker:0"], there.tasks[name]
    if update is None:
        return made.travel(routes.word(client, task, "read"), routes.leg(task, client, "read_reply", size_bytes))
    return made.travel(routes.leg(client, task, "update", size_bytes), routes.word(task, client, "update_reply"))


def plan(*parts: ServerCall) -> CallPlan:
    return CallPlan(parts, len(parts), len(parts))
