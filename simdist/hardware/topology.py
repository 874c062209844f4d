"""Topologies: which links there are between hosts, and which of them a message crosses.

A topology is frozen data and pure functions on names: it knows neither a clock nor flows. Given the hosts in their order
and the figures of a port, it says which links exist, which links go from one host to another, and which links are
those of one host. Every link is one direction of a cable, has a name that stays the same, and a latency of its own; the
latency of a route is the sum of those of its links.

Not modelled: routing that avoids busy links, twisted tori, switches that are slower than their ports.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from simdist.arguments import float_of
from simdist.errors import InvalidArgumentError
from simdist.hardware.figures import check_whole, keep_figures
from simdist.hardware.links import LinkModel

__all__ = ["FLAT_SWITCH", "FlatSwitch", "Racks", "Topology", "Torus"]

AXES = "xyzabc"


class Topology(ABC):
    """How hosts are wired. Hosts are known by their position in the order in which they were given.

    Example:
        >>> [isinstance(topology, Topology) for topology in (FlatSwitch(), Racks(tasks_per_rack=2))]
        [True, True]
    """

    __slots__ = ()

    @abstractmethod
    def links(self, hosts: Sequence[str], bandwidth: float, latency: float) -> list[LinkModel]:
        """Every link, in a fixed order.

        Args:
            hosts: the names of all.
            bandwidth: of the network, in bytes per second.
            latency: of the network, in seconds.
        """

    @abstractmethod
    def route(self, hosts: Sequence[str], source: int, target: int) -> list[str]:
        """The names of the links from one host to another one, in the order of travel, each once.

        Args:
            hosts: the names of all.
            source, target: the positions of the two.
        """

    @abstractmethod
    def port(self, hosts: Sequence[str], host: int) -> list[str]:
        """The names of the links that one host sends and receives through.

        Args:
            hosts: the names of all.
            host: its position.
        """


@dataclass(frozen=True)
class FlatSwitch(Topology):
    """One switch that is never the bottleneck; each host has a full-duplex port: ``HOST/out`` and ``HOST/in``.

    Each of the two ports on a route adds half of the network's latency.

    Example:
        >>> FlatSwitch().route(["worker:0", "worker:1"], 0, 1)
        ['worker:0/out', 'worker:1/in']
    """

    def links(self, hosts: Sequence[str], bandwidth: float, latency: float) -> list[LinkModel]:
        return [
            LinkModel(name=f"{host}/{direction}", bandwidth=bandwidth, latency=latency / 2) for host in hosts for direction in ("out", "in")
        ]

    def route(self, hosts: Sequence[str], source: int, target: int) -> list[str]:
        return [f"{hosts[source]}/out", f"{hosts[target]}/in"]

    def port(self, hosts: Sequence[str], host: int) -> list[str]:
        return [f"{hosts[host]}/out", f"{hosts[host]}/in"]


FLAT_SWITCH = FlatSwitch()


@dataclass(frozen=True)
class Racks(Topology):
    """A switch in every rack, and one above them: between racks also ``rack:N/up`` and ``rack:M/down``.

    Args:
        tasks_per_rack: how many hosts a rack holds; they fill the racks in their order.
        oversubscription: the bandwidth of a full rack's ports over that of its uplink (and its downlink); default 1.0.
        hop_latency: seconds that an uplink adds, and a downlink too; default 0.0.

    Raises:
        TypeError: if an argument is no number.
        InvalidArgumentError: if one is too small, or the oversubscription infinite.

    Example:
        >>> racks, hosts = Racks(tasks_per_rack=2, oversubscription=4.0), [f"worker:{i}" for i in range(4)]
        >>> racks.route(hosts, 0, 3)
        ['worker:0/out', 'rack:0/up', 'rack:1/down', 'worker:3/in']
        >>> racks.links(hosts, bandwidth=1e9, latency=0.0)[-1]
        LinkModel(bandwidth=500000000.0, latency=0.0, shared=False, name='rack:1/down')
    """

    tasks_per_rack: int
    oversubscription: float = 1.0
    hop_latency: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks_per_rack", check_whole("Racks", "tasks_per_rack", self.tasks_per_rack))
        keep_figures(self, "oversubscription")
        keep_figures(self, "hop_latency", may_be_zero=True)
        if math.isinf(self.oversubscription):
            raise InvalidArgumentError(
                "Racks: oversubscription must be finite: of an infinite one no uplink is left, and no message gets out."
            )

    def links(self, hosts: Sequence[str], bandwidth: float, latency: float) -> list[LinkModel]:
        uplink = float_of(self.tasks_per_rack) * bandwidth / self.oversubscription
        racks = math.ceil(len(hosts) / self.tasks_per_rack)
        return [
            *FLAT_SWITCH.links(hosts, bandwidth, latency),
            *(
                LinkModel(name=f"rack:{rack}/{direction}", bandwidth=uplink, latency=self.hop_latency)
                for rack in range(racks)
                for direction in ("up", "down")
            ),
        ]

    def route(self, hosts: Sequence[str], source: int, target: int) -> list[str]:
        first, last = FLAT_SWITCH.route(hosts, source, target)
        here, there = source // self.tasks_per_rack, target // self.tasks_per_rack
        return [first, last] if here == there else [first, f"rack:{here}/up", f"rack:{there}/down", last]

    def port(self, hosts: Sequence[str], host: int) -> list[str]:
        return FLAT_SWITCH.port(hosts, host)


@dataclass(frozen=True)
class Torus(Topology):
    """A grid whose ends are joined; each node has a link in either direction of each axis: ``HOST/x+``, ``HOST/x-``, ...

    A message travels along the first axis until that coordinate is right, then along the next (dimension-order routing:
    Dally and Towles, Principles and Practices of Interconnection Networks, 2004, chapter 8). It goes the shorter way
    round; where both are equally long, in the positive direction. Each hop adds the network's latency.

    Args:
        shape: how many nodes along each axis (x, y, z, a, b, c); hosts are the nodes in row-major order.

    Raises:
        TypeError: if the shape is no tuple of whole numbers.
        InvalidArgumentError: if it is empty or has more than 6 axes, or a number below 1.

    Example:
        >>> torus, hosts = Torus((4, 4)), [f"worker:{i}" for i in range(16)]
        >>> torus.route(hosts, 0, 13)
        ['worker:0/x-', 'worker:12/y+']
    """

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Torus: shape must be a tuple such as (4, 4); got {self.shape!r}.")
        if not 1 <= len(self.shape) <= len(AXES):
            raise InvalidArgumentError(f"Torus: shape must have 1 to {len(AXES)} axes; got {self.shape!r}.")
        object.__setattr__(self, "shape", tuple([check_whole("Torus", "each length in shape", length) for length in self.shape]))

    def links(self, hosts: Sequence[str], bandwidth: float, latency: float) -> list[LinkModel]:
        self._check(hosts)
        return [
            LinkModel(name=f"{host}/{axis}{sign}", bandwidth=bandwidth, latency=latency)
            for host in hosts
            for axis, length in zip(AXES, self.shape, strict=False)
            if length > 1
            for sign in "+-"
        ]

    def route(self, hosts: Sequence[str], source: int, target: int) -> list[str]:
        names: list[str] = []
        here, there = list(self.coordinates(source)), self.coordinates(target)
        for axis, length in enumerate(self.shape):
            ahead = (there[axis] - here[axis]) % length
            sign, hops = ("+", ahead) if 2 * ahead <= length else ("-", length - ahead)
            for _ in range(hops):
                names.append(f"{hosts[self._position(here)]}/{AXES[axis]}{sign}")
                here[axis] = (here[axis] + (1 if sign == "+" else -1)) % length
        return names

    def port(self, hosts: Sequence[str], host: int) -> list[str]:
        """All links that leave or enter the node."""
        names: list[str] = []
        for axis, length in enumerate(self.shape):
            for sign, step in (("+", 1), ("-", -1)) if length > 1 else ():
                behind = list(self.coordinates(host))
                behind[axis] = (behind[axis] - step) % length
                names += [f"{hosts[host]}/{AXES[axis]}{sign}", f"{hosts[self._position(behind)]}/{AXES[axis]}{sign}"]
        return names

    def coordinates(self, host: int) -> tuple[int, ...]:
        """Where a host is in the grid.

        Example:
            >>> Torus((4, 4)).coordinates(13)
            (3, 1)
        """
        rest: list[int] = []
        for length in reversed(self.shape):
            host, coordinate = divmod(host, length)
            rest.append(coordinate)
        return tuple(reversed(rest))

    def _position(self, coordinates: Sequence[int]) -> int:
        host = 0
        for length, coordinate in zip(self.shape, coordinates, strict=True):
            host = host * length + coordinate
        return host

    def _check(self, hosts: Sequence[str]) -> None:
        nodes = math.prod(self.shape)
        if len(hosts) != nodes:
            raise InvalidArgumentError(
                f"A torus of shape {self.shape} has {nodes} nodes, but {len(hosts)} hosts are to be its nodes. Give as many hosts as nodes."
            )
