"""The legs of messages between the tasks of a cluster: their links and their latency."""

from __future__ import annotations

from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Arrived, Content, Leg, Transport
from simdist.simulation.fabric import Fabric, Route

__all__ = ["Routes"]


class Routes:
    """The routes from each task to each other one.

    Args:
        fabric: finds routes.
        host_of: the host of each task.
        transport: sends.
    """

    def __init__(self, fabric: Fabric, host_of: dict[str, str], transport: Transport) -> None:
        self.fabric = fabric
        self.host_of = host_of
        self.transport = transport
        self._words: dict[tuple[str, str], Leg] = {}

    def between(self, source: str, target: str) -> Route:
        """The route between two tasks or devices."""
        return self.fabric.route(self.host_of.get(source, source), self.host_of.get(target, target))

    def latency_s(self, source: Task, target: Task) -> float:
        """Seconds until a message without bytes has arrived."""
        return self.between(source.name, target.name).latency_s

    def word(self, source: Task, target: Task, content: Content = None) -> Leg:
        """The leg of a message without bytes."""
        return Leg(source, target, 0, (), self.latency_s(source, target), None, content, is_word=True)

    def leg(self, source: Task, target: Task, size_bytes: float, content: Content = None) -> Leg:
        """The leg of a message whose bytes count as sent by its source."""
        route = self.between(source.name, target.name)
        return Leg(source, target, size_bytes, route.links, route.latency_s, (source.name, "bytes_sent"), content)

    def post(self, source: Task, target: Task, arrived: Arrived, content: Content = None, unheard: Arrived | None = None) -> None:
        """Send a message without bytes; `arrived(content)` is called at its arrival, unless one of the two has died before.

        Args:
            unheard: is called with the content where the word is lost.
        """
        leg = self._words.get((source.name, target.name))
        if leg is None:
            leg = self._words[source.name, target.name] = self.word(source, target)
        self.transport.post(leg, arrived, content, unheard)
