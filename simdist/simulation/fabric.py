"""The fabric of a cluster: its links, made once, and the route between any two devices.

`simdist.hardware.wiring.Wiring` says which links exist and which of them a message crosses.

Invariants: the order of links is that of the hosts and devices given, a route's latency is the sum of the latencies of its
links, and a route from a device to itself is empty. Flows, and so all that changes with time, belong to
`simdist.simulation.network.SharedLinks`.

Not simulated: links that break (faults stop messages elsewhere), devices that reach the network past their host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simdist.hardware import Network
from simdist.hardware.wiring import Wiring, unknown
from simdist.simulation.network import Link

__all__ = ["Fabric", "Route"]


@dataclass(frozen=True, slots=True)
class Route:
    """A route: the links whose bandwidth a message shares, and the latency of its first byte.

    Args:
        links: in the order of travel; none from a place to itself.
        latency_s: seconds.
    """

    links: tuple[Link, ...]
    latency_s: float


class Fabric:
    """All links of a cluster, and the routes over them.

    Args:
        network, hosts, devices: as of `Wiring`.

    Raises:
        InvalidArgumentError: as `Wiring`.

    Example:
        >>> fabric = Fabric(Network(bandwidth=1e9, latency=1e-4).in_racks(1), ["worker:0", "worker:1"])
        >>> route = fabric.route("worker:0", "worker:1")
        >>> [link.name for link in route.links], route.latency_s
        (['worker:0/out', 'rack:0/up', 'rack:1/down', 'worker:1/in'], 0.0001)
    """

    def __init__(self, network: Network, hosts: Sequence[str], devices: Mapping[str, Sequence[str]] | None = None) -> None:
        self.wiring = Wiring(network, hosts, devices)
        self._links = {name: Link(name, link.bandwidth) for name, link in self.wiring.links.items()}
        self._routes: dict[tuple[str, str], Route] = {}

    def add_host(self, host: str) -> None:
        """One more host; see `Wiring.add_host`."""
        for link in self.wiring.add_host(host):
            self._links[link.name] = Link(link.name, link.bandwidth)

    def add_device(self, host: str, device: str) -> None:
        """One more device inside a host; see `Wiring.add_device`."""
        for link in self.wiring.add_device(host, device):
            self._links[link.name] = Link(link.name, link.bandwidth)

    def route(self, source: str, target: str) -> Route:
        """The route from one device to another; the same object each time.

        Args:
            source: a host or device.
            target: a host or device.

        Raises:
            InvalidArgumentError: there is no such place; the message lists similar ones.
        """
        try:
            return self._routes[source, target]
        except KeyError:
            names = self.wiring.route(source, target)
        links = tuple(self._links[name] for name in names)
        route = self._routes[source, target] = Route(links, self.wiring.latency_s(names))
        return route

    def links(self) -> list[Link]:
        """Every link: those between hosts first, then those inside each host."""
        return list(self._links.values())

    def link(self, name: str) -> Link:
        """One link by its name.

        Raises:
            InvalidArgumentError: there is none; the message lists similar ones.
        """
        if name not in self._links:
            raise unknown("link", name, self._links)
        return self._links[name]
