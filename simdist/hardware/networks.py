"""What connects the hosts of a cluster, and the devices inside each of them.

A network is frozen data: figures of a port, a topology between hosts, a connection inside them, and exceptions for
single ports and links. `simdist.simulation.fabric.Fabric` makes links and routes of it once the hosts are known, and
only then can it say whether a name in an exception exists.

Invariants: every figure is in base units and frozen; bandwidths are positive, latencies may be 0. Figures are given
for each direction: ports are full duplex. Not modelled: packets, protocols, loss.

Taught in lesson 02.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from simdist.arguments import flag, shown
from simdist.errors import InvalidArgumentError
from simdist.hardware.figures import check_name, keep_figures
from simdist.hardware.links import LinkModel
from simdist.hardware.topology import FLAT_SWITCH, Racks, Topology, Torus

__all__ = ["Network", "Override"]


@dataclass(frozen=True, kw_only=True)
class Override:
    """An exception from a network's figures, for one port or one link; None leaves a figure as it is.

    Args:
        name: of the host, or of the link.
        is_port: whether it is the port of a host.
        bandwidth: bytes per second.
        latency: seconds.

    Raises:
        InvalidArgumentError: nothing would change, or a figure that cannot be.

    Example:
        >>> Override(name="worker:0", is_port=True, bandwidth=1e9).bandwidth
        1000000000.0
    """

    name: str
    is_port: bool
    bandwidth: float | None = None
    latency: float | None = None

    def __post_init__(self) -> None:
        check_name(self)
        flag(self.is_port, "is_port")
        owner = f"{'Port' if self.is_port else 'Link'} {self.name!r}"
        if self.bandwidth is None and self.latency is None:
            raise InvalidArgumentError(f"{owner}: give bandwidth=, latency= or both; nothing would change.")
        if self.bandwidth is not None:
            keep_figures(self, "bandwidth", owner=owner)
        if self.latency is not None:
            keep_figures(self, "latency", owner=owner, may_be_zero=True)


@dataclass(frozen=True, kw_only=True)
class Network:
    """What connects hosts, and what connects the devices inside each of them.

    The defaults are those of `ethernet_10g`, with `pcie4` inside a host.

    Args:
        bandwidth: bytes per second of a host's port, in each direction; in a torus, of each link.
        latency: seconds from sending to receiving an empty message, one way, in one rack; in a torus, of each hop.
        intra_host_bandwidth: bytes per second between two devices of one host, in each direction.
        intra_host_latency: seconds from sending to receiving an empty message inside a host.
        intra_host_shared: whether the devices of a host share one bus; otherwise each has a port of its own.
        topology: how hosts are wired; default one switch.
        overrides: exceptions for single ports and links, made by `with_port` and `with_link`; the later wins.
        name: what pictures and messages call it.

    Raises:
        TypeError: if a figure is no number, or `topology` no topology.
        InvalidArgumentError: if a figure is not positive (a latency may be 0).

    Example:
        >>> from simdist.hardware import nvlink3
        >>> network = Network(bandwidth=1e9, latency=1e-4).within_host(nvlink3)
        >>> network.intra_host_bandwidth
        300000000000.0
    """

    bandwidth: float = 1.25e9
    latency: float = 50e-6
    intra_host_bandwidth: float = 31.5e9
    intra_host_latency: float = 2e-6
    intra_host_shared: bool = True
    topology: Topology = FLAT_SWITCH
    overrides: tuple[Override, ...] = ()
    name: str = "network"

    def __post_init__(self) -> None:
        check_name(self)
        keep_figures(self, "bandwidth", "intra_host_bandwidth")
        keep_figures(self, "latency", "intra_host_latency", may_be_zero=True)
        if not isinstance(cast("object", self.intra_host_shared), bool):
            raise TypeError(f"Network: intra_host_shared must be True or False; got {self.intra_host_shared!r}.")
        if not isinstance(cast("object", self.topology), Topology):
            raise TypeError(f"Network: topology must be FlatSwitch(), Racks(...) or Torus(...); got {self.topology!r}.")
        if not isinstance(cast("object", self.overrides), (tuple, list)):
            raise TypeError(f"Network: overrides is {self.overrides!r}; make exceptions with with_port(...) and with_link(...).")
        wrong = [each for each in self.overrides if not isinstance(cast("object", each), Override)]
        if wrong:
            raise TypeError(f"Network: overrides has {wrong[0]!r}; make exceptions with with_port(...) and with_link(...).")

    def within_host(self, link: LinkModel) -> Network:
        """The same network with another connection inside the hosts.

        Args:
            link: its figures, and whether the devices share it.

        Example:
            >>> from simdist.hardware import ethernet_25g, pcie4
            >>> ethernet_25g.within_host(pcie4).intra_host_latency
            2e-06
        """
        if not isinstance(cast("object", link), LinkModel):
            raise TypeError(f"within_host takes a LinkModel, such as simdist.hardware.pcie4; got {shown(link)}")
        return replace(self, intra_host_bandwidth=link.bandwidth, intra_host_latency=link.latency, intra_host_shared=link.shared)

    def in_racks(self, tasks_per_rack: int, oversubscription: float = 1.0, hop_latency: float = 0.0) -> Network:
        """The same network with hosts in racks, whose uplinks are shared.

        Args:
            tasks_per_rack: how many hosts a rack holds; they fill the racks in the order of `Cluster.tasks`, so the chief takes the
                first place, also where a notebook is the chief.
            oversubscription: bandwidth of a full rack's ports over that of its uplink; default 1.0: the uplink never limits.
            hop_latency: seconds that a rack's uplink or downlink adds, each; default 0.0.

        Raises:
            TypeError: if an argument is no number.
            InvalidArgumentError: if an argument is too small, or the oversubscription infinite.

        Example:
            >>> Network().in_racks(16, oversubscription=4.0).topology
            Racks(tasks_per_rack=16, oversubscription=4.0, hop_latency=0.0)
        """
        return replace(self, topology=Racks(tasks_per_rack, oversubscription, hop_latency))

    def as_torus(self, shape: tuple[int, ...]) -> Network:
        """The same figures for the links of a torus; hosts are its nodes in row-major order.

        Args:
            shape: how many nodes along each axis, such as ``(4, 4)`` or ``(4, 4, 4)``.

        Raises:
            TypeError: if the shape is no tuple of whole numbers.
            InvalidArgumentError: if it has no axis, more than 6, or a length below 1.

        Example:
            >>> Network().as_torus((4, 4)).topology
            Torus(shape=(4, 4))
        """
        return replace(self, topology=Torus(shape))

    def with_port(self, name: str, *, bandwidth: float | None = None, latency: float | None = None) -> Network:
        """The same network with another port for one host or device, in both directions.

        Args:
            name: of the host (``"worker:1"``), of a device with a port of its own (``"worker:0/gpu:1"``), or of the bus that the devices of
                a host share (``"worker:0/bus"``); a device need not be there yet.
            bandwidth: bytes per second of each of its links, in each direction; default: as all others.
            latency: seconds that each of its links adds to a message; default: as all others. At a switch the two ports
                of a route add half of the network's latency each.

        Raises:
            TypeError: if a figure is no number.
            InvalidArgumentError: if neither figure is given, or one is not positive (a latency may be 0). That no such
                port exists is found when the fabric is built.

        Example:
            >>> slow = Network(bandwidth=1e9).with_port("worker:1", bandwidth=1e8)
        """
        return replace(self, overrides=(*self.overrides, Override(name=name, is_port=True, bandwidth=bandwidth, latency=latency)))

    def with_link(self, name: str, *, bandwidth: float | None = None, latency: float | None = None) -> Network:
        """The same network with other figures for one link, which is one direction of a port or cable.

        Args:
            name: of the link, such as ``"worker:1/out"``, ``"rack:0/up"``, ``"worker:3/x+"`` or ``"worker:0/gpu:1/in"``.
            bandwidth: bytes per second; default: as all others of its kind.
            latency: seconds that it adds to a message; default: as all others of its kind.

        Raises:
            TypeError: if a figure is no number.
            InvalidArgumentError: if neither figure is given, or one is not positive (a latency may be 0). That no such
                link exists is found when the fabric is built.

        Example:
            >>> thin = Network().in_racks(4).with_link("rack:0/up", bandwidth=1e8)
        """
        return replace(self, overrides=(*self.overrides, Override(name=name, is_port=False, bandwidth=bandwidth, latency=latency)))
