"""The lines that join the nodes of a torus in a picture: one for each pair of neighbours, with the links of both directions."""

from __future__ import annotations

from simdist.hardware import Torus
from simdist.hardware.topology import AXES
from simdist.runtime.cluster import Cluster

__all__ = ["line_of_each_link"]


def line_of_each_link(cluster: Cluster) -> dict[str, tuple[str, str, str]]:
    """For each link of a torus between neighbours of its grid: the name of the line, and the tasks at its two ends.

    The name is that of the link that leads in the positive direction. The way around the edge has no line, but where an axis has two
    nodes: both ways join the same two.

    Args:
        cluster: whose; one of another topology has none.

    Example:
        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 3}, network=sd.hardware.ethernet_10g.as_torus((3,)))
        >>> [(link, line) for link, (line, _, _) in line_of_each_link(cluster).items() if line == "worker:0/x+"]
        [('worker:0/x+', 'worker:0/x+'), ('worker:1/x-', 'worker:0/x+')]
    """
    topology, hosts = cluster.network.topology, cluster.world.fabric.wiring.hosts
    if not isinstance(topology, Torus):
        return {}
    nodes = {topology.coordinates(number): host for number, host in enumerate(hosts)}
    lines: dict[str, tuple[str, str, str]] = {}
    for at, host in nodes.items():
        for axis, (letter, length) in enumerate(zip(AXES, topology.shape, strict=False)):
            for sign, step in (("+", 1), ("-", -1)):
                ahead = (at[axis] + step) % length
                if abs(ahead - at[axis]) == 1:
                    first, second = sorted((at, (*at[:axis], ahead, *at[axis + 1 :])))
                    lines[f"{host}/{letter}{sign}"] = f"{nodes[first]}/{letter}+", nodes[first], nodes[second]
    return lines
