"""The legs of messages between the tasks of a cluster: their links and their latency."""

from __future__ import annotations

from simdist.runtime.simulated.legs import Content, Leg
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Arrived, Transport
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
        self._words: dict[tuple[str, str, str], Leg] = {}

    def between(self, source: str, target: str) -> Route:
        """The route between two tasks or devices."""
        return self.fabric.route(self.host_of.get(source, source), self.host_of.get(target, target))

    def latency_s(self, source: Task, target: Task) -> float:
        """Seconds until a message without bytes has arrived."""
        return self.between(source.name, target.name).latency_s

    def bandwidth(self, source: str, target: str) -> float | None:
        """What the narrowest link between two places carries, in bytes per second; None where no link lies between them."""
        return min([link.bandwidth_bytes_per_s for link in self.between(source, target).links], default=None)

    def word(self, source: Task, target: Task, kind: str, content: Content = None) -> Leg:
        """The leg of a message without bytes."""
        return Leg(source, target, 0, (), self.latency_s(source, target), None, content, is_word=True, kind=kind)

    def leg(self, source: Task, target: Task, kind: str, size_bytes: float, content: Content = None) -> Leg:
        """The leg of a message whose bytes count as sent by its source."""
        route = self.between(source.name, target.name)
        return Leg(source, target, size_bytes, route.links, route.latency_s, (source.name, "bytes_sent"), content, kind=kind)

    def post(
        self,
        source: Task,
        target: Task,
        kind: str,
        arrived: Arrived,
        content: Content = None,
        unheard: Arrived | None = None,
        is_awaited: bool = True,
    ) -> None:
        """Send a word; `arrived(content)` is called once, when it has come, unless one of the two has died on the way.

        Args:
            kind: of the message.
            unheard: is called with the content where the word is lost.
            is_awaited: whether its arrival can end a wait.
        """
        leg = self._words.get((source.name, target.name, kind))
        if leg is None:
            leg = self._words[source.name, target.name, kind] = self.word(source, target, kind)
        self.transport.post(leg, arrived, content, unheard, is_awaited)
