"""Where the tasks of a cluster stand in a picture of it, and which lines join them.

Positions lie in [0, 1], from the left and from the top. Servers stand above, workers below, the chief at the left; hosts in racks
stand in columns, those of a torus in its grid. So many tasks that they could not be distinguished become a grid of cells.

Invariant: the same cluster gives the same picture, on any machine.
"""

from __future__ import annotations

import math
from typing import Any

from simdist.hardware import Racks, Torus
from simdist.hardware.topology import AXES
from simdist.runtime.cluster import Cluster
from simdist_widgets.torus_lines import line_of_each_link

__all__ = ["MOST_SINGLE", "cluster_layout"]

MOST_SINGLE = 200
"""Tasks that are drawn singly; more are cells of a grid."""

Positions = dict[str, tuple[float, float]]
LEFT, RIGHT, TOP, BOTTOM = 0.08, 0.95, 0.10, 0.90


def cluster_layout(cluster: Cluster) -> dict[str, Any]:
    """The tasks, hubs and links of a cluster, with positions.

    Args:
        cluster: whose.

    Returns:
        ``tasks``, ``hubs``, ``links`` (with ``name``, ``source``, ``target``, ``bandwidth_bytes_per_s``) and ``is_grid``, JSON-able.

    Example:
        >>> import simdist as sd
        >>> layout = cluster_layout(sd.Cluster({"worker": 2, "ps": 1}))
        >>> [task["name"] for task in layout["tasks"]], [hub["name"] for hub in layout["hubs"]]
        (['chief:0', 'worker:0', 'worker:1', 'ps:0'], ['switch'])
    """
    names, topology = list(cluster.world.tasks), cluster.network.topology  # also those that have left, whose hosts stay in their racks
    racks = _racks(cluster, names)
    hubs: Positions = {}
    if len(names) > MOST_SINGLE:
        positions = _grid(names)
    elif isinstance(topology, Torus):
        positions = _torus(names, list(cluster.world.fabric.wiring.hosts), topology.shape)
    elif len(set(racks.values())) > 1:
        positions, hubs = _columns(names, racks)
    else:
        positions, hubs = _rows(names), {"switch": (0.585, 0.5)}
    return {
        "is_grid": len(names) > MOST_SINGLE,
        "tasks": [
            {"name": name, "job": name.split(":")[0], "host": name, "rack": racks[name], "x": round(x, 4), "y": round(y, 4)}
            for name, (x, y) in positions.items()
        ],
        "hubs": [{"name": name, "x": round(x, 4), "y": round(y, 4)} for name, (x, y) in hubs.items()],
        "links": _links(cluster, positions, hubs, racks) if len(names) <= MOST_SINGLE else [],
    }


def _racks(cluster: Cluster, names: list[str]) -> dict[str, int]:
    topology = cluster.network.topology
    size = topology.tasks_per_rack if isinstance(topology, Racks) else len(names)
    return {name: number // size for number, name in enumerate(names)}


def _rows(names: list[str]) -> Positions:
    """Servers above, workers below, the chief at the left; workers alone in a ring."""
    jobs: dict[str, list[str]] = {}
    for name in names:
        jobs.setdefault(name.split(":")[0], []).append(name)
    chief = jobs.pop("chief", [])
    positions = dict.fromkeys(chief[:1], (LEFT, 0.5))
    for number, name in enumerate(chief[1:]):
        positions[name] = (LEFT, 0.5 + 0.12 * (number + 1))
    if len(jobs) == 1:
        (members,) = jobs.values()
        for number, name in enumerate(members):
            angle = 2 * math.pi * number / len(members) - math.pi / 2
            positions[name] = (0.55 + 0.36 * math.cos(angle), 0.5 + 0.38 * math.sin(angle))
    else:
        ordered = sorted(jobs, key=lambda job: (job != "ps", job))
        for row, job in enumerate(ordered):
            between = (BOTTOM - TOP - 0.16) / (len(ordered) - 1)
            positions |= _spread(jobs[job], TOP + 0.08 + between * row, min(0.15, 0.4 * between))
    return {name: positions[name] for name in names}


def _spread(members: list[str], y: float, room: float) -> Positions:
    """A row of tasks; a long one in several lines, at most so far above and below it."""
    lines = max(1, math.ceil(len(members) / 24))
    away = min(0.09, 2 * room / max(1, lines - 1))
    per_line = math.ceil(len(members) / lines)
    positions: Positions = {}
    for number, name in enumerate(members):
        line, column = divmod(number, per_line)
        count = min(per_line, len(members) - line * per_line)
        x = 0.22 + (RIGHT - 0.22) * (column + 0.5) / count
        positions[name] = (x, y + (line - (lines - 1) / 2) * away)
    return positions


def _columns(names: list[str], racks: dict[str, int]) -> tuple[Positions, Positions]:
    count = max(racks.values()) + 1
    members: dict[int, list[str]] = {}
    for name in names:
        members.setdefault(racks[name], []).append(name)
    positions: Positions = {}
    hubs: Positions = {"spine": (0.5, TOP)}
    for rack, tasks in members.items():
        x = (rack + 0.5) / count
        hubs[f"rack:{rack}"] = (x, 0.28)
        columns = math.ceil(len(tasks) / 8)
        for number, name in enumerate(tasks):
            row, column = divmod(number, columns)
            rows = math.ceil(len(tasks) / columns)
            offset = (column - (columns - 1) / 2) * 0.6 / (count * columns)
            positions[name] = (x + offset, 0.42 + (BOTTOM - 0.42) * (row + 0.5) / rows)
    return positions, hubs


def _torus(names: list[str], nodes: list[str], shape: tuple[int, ...]) -> Positions:
    """The nodes of a torus in its first two axes; layers of the others are moved a little. Who is no node stands at the left."""
    positions: Positions = dict.fromkeys(names, (LEFT, 0.5))
    width, height = (*shape, 1)[:2]
    depth = math.prod(shape[2:])
    for number, name in enumerate(nodes):
        x, rest = divmod(number, height * depth)
        y, z = divmod(rest, depth)
        shift = (z - (depth - 1) / 2) / (max(width, height) * max(depth, 1) * 1.6)
        positions[name] = (0.2 + 0.75 * (x + 0.5) / width + shift, TOP + (BOTTOM - TOP) * (y + 0.5) / height + shift)
    return positions


def _grid(names: list[str]) -> Positions:
    columns = math.ceil(math.sqrt(len(names) * 1.6))
    rows = math.ceil(len(names) / columns)
    return {name: ((number % columns + 0.5) / columns, (number // columns + 0.5) / rows) for number, name in enumerate(names)}


def _links(cluster: Cluster, positions: Positions, hubs: Positions, racks: dict[str, int]) -> list[dict[str, Any]]:
    bandwidths = {link.name: link.bandwidth_bytes_per_s for link in cluster.world.fabric.links()}
    if isinstance(cluster.network.topology, Torus):
        ends = sorted(set(line_of_each_link(cluster).values()))
        # Lines along a further axis would lie over those of the first two.
        return [_link(name, source, target, bandwidths[name]) for name, source, target in ends if name[-2] in AXES[:2]]
    links: list[dict[str, Any]] = []
    for name in positions:
        hub = "switch" if "switch" in hubs else f"rack:{racks[name]}"
        if f"{name}/out" in bandwidths:
            links.append(_link(name, name, hub, bandwidths[f"{name}/out"]))
    links += [_link(hub, hub, "spine", bandwidths[f"{hub}/up"]) for hub in hubs if f"{hub}/up" in bandwidths]
    return links


def _link(name: str, source: str, target: str, bandwidth: float) -> dict[str, Any]:
    return {"name": name, "source": source, "target": target, "bandwidth_bytes_per_s": bandwidth}
