"""The wiring of a cluster: the links of its network as figures, and which of them lie between any two places.

A place is a host (``worker:0``) or one of its devices (``worker:0/gpu:1``). A message from a device leaves through the
device's port or its host's bus, crosses the links between the hosts as the topology says, and enters likewise; a host
itself stands for its own memory, which has no port.

    places                          links
    host                            of the topology: HOST/out, HOST/in, rack:N/up, rack:N/down, HOST/x+, HOST/x-, ...
    device with a port of its own   HOST/gpu:1/out, HOST/gpu:1/in
    devices that share a bus        HOST/bus/up (to the root complex), HOST/bus/down

Invariants: the order of links is that of the hosts and devices given, nothing depends on hashes, and the way from a place to
itself is empty. All of it is data: what travels on the links is the business of `simdist.simulation.fabric`.

Not modelled: links that break, devices that reach the network past their host.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.hardware.links import LinkModel
from simdist.hardware.networks import Network
from simdist.hardware.topology import Torus

__all__ = ["Wiring", "hosts_of", "unknown"]

NAMES_IN_A_MESSAGE = 12
NOT_THERE = "which its links(...) do not have"


def hosts_of(network: Network, tasks: Sequence[str]) -> dict[str, str]:
    """The host of each task: one of its own.

    A torus has as many nodes as its shape says: where the notebook's chief, the first task, is one too many, it runs on the first node.
    """
    hosts = {task: task for task in tasks}
    if isinstance(network.topology, Torus) and math.prod(network.topology.shape) == len(tasks) - 1:
        hosts[tasks[0]] = tasks[1]
    return hosts


@dataclass(frozen=True, slots=True)
class _Endpoint:
    host: int
    leave: tuple[str, ...]  # links from here to the host's memory or its network
    enter: tuple[str, ...]


class Wiring:
    """All links of a cluster, and the ways over them.

    Args:
        network: figures, topology, exceptions.
        hosts: names of the hosts; racks and torus nodes are filled in this order.
        devices: for each host that has some, the names of its devices: ``{"worker:0": ["worker:0/gpu:0"]}``.

    Attributes:
        links: every link by its name: those between hosts first, then those inside each host.

    Raises:
        InvalidArgumentError: a name that is given twice, devices of an unknown host, a device whose name does not begin with
            its host's, a number of hosts that does not fit the torus, an exception for a port or link that is not there and cannot come
            with a device.

    Example:
        >>> wiring = Wiring(Network(bandwidth=1e9, latency=1e-4).in_racks(1), ["worker:0", "worker:1"])
        >>> wiring.route("worker:0", "worker:1")
        ['worker:0/out', 'rack:0/up', 'rack:1/down', 'worker:1/in']
        >>> wiring.figures("worker:0", "worker:1")
        (0.0001, 1000000000.0)
    """

    def __init__(self, network: Network, hosts: Sequence[str], devices: Mapping[str, Sequence[str]] | None = None) -> None:
        self.network = network
        self.hosts = tuple(hosts)
        self._numbers = {name: number for number, name in enumerate(self.hosts)}
        self._endpoints: dict[str, _Endpoint] = {}
        self._add_hosts()
        self.links = {link.name: link for link in _links_of(network, self.hosts)}
        ports = {name: network.topology.port(self.hosts, number) for number, name in enumerate(self.hosts)}
        for host, lanes in self._of_known_hosts(devices or {}):
            for port, link in self._inside(host, lanes):
                self.links[link.name] = link
                ports.setdefault(port, []).append(link.name)
        self._require_known(ports)
        _make_exceptions(network, self.links, ports)

    def add_host(self, host: str) -> list[LinkModel]:
        """One more host, after the others; its links have the figures of the network. What there is stays as it is.

        Returns:
            The new links.

        Raises:
            InvalidArgumentError: the topology has no place for it, or the name is taken.
        """
        hosts, network = (*self.hosts, host), self.network
        new = [link for link in _links_of(network, hosts) if link.name not in self.links]
        self._add(host, _Endpoint(len(self.hosts), (), ()))
        self._numbers[host] = len(self.hosts)
        self.hosts = hosts
        self.links.update({link.name: link for link in new})
        return new

    def add_device(self, host: str, device: str) -> list[LinkModel]:
        """One more device inside a host; its links, where they are new, have the figures of the network inside hosts, and its exceptions.

        Args:
            host: a host of the cluster.
            device: its name; begins with the host's and a slash.

        Returns:
            The new links.

        Raises:
            InvalidArgumentError: the host is unknown, or the name is taken or does not begin with the host's.
        """
        if host not in self._numbers:
            raise unknown("host", host, self.hosts)
        new: dict[str, LinkModel] = {}
        ports: dict[str, list[str]] = {}
        for port, link in self._inside(self._numbers[host], [device]):
            if link.name not in self.links:
                new[link.name] = link
                ports.setdefault(port, []).append(link.name)
        _make_exceptions(self.network, new, ports)
        self.links.update(new)
        return list(new.values())

    def route(self, source: str, target: str) -> list[str]:
        """The names of the links from one place to another, in the order of travel.

        Args:
            source: a host or device.
            target: a host or device.

        Raises:
            InvalidArgumentError: there is no such place; the message lists similar ones. Or the topology, of a user's own, gives no route.
        """
        here, there = self._endpoint(source), self._endpoint(target)
        if source == target:
            return []
        between = self._between(here.host, there.host) if here.host != there.host else []
        return [*here.leave, *between, *there.enter]

    def _between(self, source: int, target: int) -> list[str]:
        names = list(self.network.topology.route(self.hosts, source, target) or ())
        wrong, twice = [name for name in names if name not in self.links], [name for name in names if names.count(name) > 1]
        if wrong or twice or not names:
            what = f"the link {wrong[0]!r}, {NOT_THERE}" if wrong else f"the link {twice[0]!r} twice" if twice else "no link"
            raise InvalidArgumentError(
                f"{type(self.network.topology).__name__}.route(hosts, {source}, {target}) gave {what}. "
                f"Give the names of the links from {self.hosts[source]} to {self.hosts[target]}, in the order of travel, each once."
            )
        return names

    def latency_s(self, route: Sequence[str]) -> float:
        """The latencies of these links together."""
        return math.fsum(self.links[name].latency for name in route)

    def figures(self, source: str, target: str) -> tuple[float, float]:
        """Latency in seconds and bandwidth in bytes/s from one host or device to another, on idle links."""
        route = self.route(source, target)
        return self.latency_s(route), min((self.links[name].bandwidth for name in route), default=math.inf)

    def _require_known(self, ports: Mapping[str, Sequence[str]]) -> None:
        """Refuse exceptions for what is not there, and is not inside a host, where strategies add devices later."""
        port = r"/bus" if self.network.intra_host_shared else r"/[a-z]+:\d+"
        ends = r"/(up|down)" if self.network.intra_host_shared else r"/(out|in)"
        for override in self.network.overrides:
            known = ports if override.is_port else self.links
            host = next((host for host in self.hosts if override.name.startswith(f"{host}/")), "")
            inside = host and re.fullmatch(port if override.is_port else port + ends, override.name.removeprefix(host))
            if override.name not in known and not inside:
                raise unknown("port" if override.is_port else "link", override.name, known)
            wrong = [name for name in ports.get(override.name, ()) if name not in self.links] if override.is_port else []
            if wrong:
                number, topology = self._numbers[override.name], type(self.network.topology).__name__
                raise InvalidArgumentError(f"{topology}.port(hosts, {number}) gave the link {wrong[0]!r}, {NOT_THERE}.")

    def _endpoint(self, name: str) -> _Endpoint:
        if name not in self._endpoints:
            raise unknown("host or device", name, self._endpoints)
        return self._endpoints[name]

    def _add(self, name: str, endpoint: _Endpoint) -> None:
        if name in self._endpoints:
            raise InvalidArgumentError(f"{name!r} is named twice; every host and device needs a name of its own.")
        self._endpoints[name] = endpoint

    def _add_hosts(self) -> None:
        for number, name in enumerate(self.hosts):
            self._add(name, _Endpoint(number, (), ()))

    def _of_known_hosts(self, devices: Mapping[str, Sequence[str]]) -> Iterable[tuple[int, Sequence[str]]]:
        """The devices in the order of the hosts, whatever the order of the mapping."""
        for host in devices:
            if host not in self._numbers:
                raise unknown("host", host, self.hosts)
        return [(number, devices[name]) for number, name in enumerate(self.hosts) if devices.get(name)]

    def _inside(self, host: int, lanes: Sequence[str]) -> Iterable[tuple[str, LinkModel]]:
        """The links inside one host, each with the port that it belongs to; each adds half of the latency."""
        name, network = self.hosts[host], self.network
        for lane in lanes:
            if not lane.startswith(f"{name}/"):
                raise InvalidArgumentError(f"Device {lane!r} cannot be in host {name!r}; its name has to begin with '{name}/'.")
            port = f"{name}/bus" if network.intra_host_shared else lane
            out, into = ("up", "down") if network.intra_host_shared else ("out", "in")
            self._add(lane, _Endpoint(host, (f"{port}/{out}",), (f"{port}/{into}",)))
            if not network.intra_host_shared or lane == lanes[0]:
                for direction in (out, into):
                    bandwidth, latency = network.intra_host_bandwidth, network.intra_host_latency / 2
                    yield port, LinkModel(name=f"{port}/{direction}", bandwidth=bandwidth, latency=latency)


def _links_of(network: Network, hosts: Sequence[str]) -> list[LinkModel]:
    """The links between hosts, as the topology gives them, which may be of a class of a user's own."""
    links = list(network.topology.links(hosts, network.bandwidth, network.latency))
    owner = f"{type(network.topology).__name__}.links(hosts, bandwidth, latency)"
    names: set[str] = set()
    for link in links:
        if not isinstance(cast("object", link), LinkModel):
            raise TypeError(f"{owner} gave {link!r}; expected LinkModel(name=..., bandwidth=..., latency=...).")
        if link.name in names:
            raise InvalidArgumentError(f"{owner} gave two links {link.name!r}. Give each direction of each cable a name of its own.")
        names.add(link.name)
    return links


def _make_exceptions(network: Network, figures: dict[str, LinkModel], ports: Mapping[str, Sequence[str]]) -> None:
    """Change those of these figures that the network's overrides are about, one override after the other."""
    for override in network.overrides:
        for name in ports.get(override.name, ()) if override.is_port else {override.name} & figures.keys():
            old = figures[name]
            figures[name] = replace(
                old,
                bandwidth=old.bandwidth if override.bandwidth is None else override.bandwidth,
                latency=old.latency if override.latency is None else override.latency,
            )


def unknown(kind: str, name: str, known: Iterable[str]) -> InvalidArgumentError:
    """There is nothing of this name; those are listed that are most like it."""
    names = list(known)
    if len(names) > NAMES_IN_A_MESSAGE:
        names = difflib.get_close_matches(str(name), names, n=NAMES_IN_A_MESSAGE, cutoff=0.0)
    return InvalidArgumentError(f"There is no {kind} {name!r} in this network. {did_you_mean(name, names)}")
