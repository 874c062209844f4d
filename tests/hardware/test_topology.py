"""Topologies: which links exist, and whether routes are the shortest."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import pytest

from simdist.errors import InvalidArgumentError
from simdist.hardware import FlatSwitch, Network, Racks, Topology, Torus
from simdist.hardware.links import LinkModel
from simdist.hardware.wiring import Wiring

SHAPES = [(4, 4), (4, 4, 4), (5,), (2,), (1, 3), (2, 3, 4), (6, 5), (2, 2, 2, 2)]


def names(count: int) -> list[str]:
    return [f"worker:{i}" for i in range(count)]


def ends(shape: tuple[int, ...], hosts: list[str]) -> dict[str, tuple[int, int]]:
    """From where to where each link of a torus leads, found from its name alone."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    result: dict[str, tuple[int, int]] = {}
    for link in Torus(shape).links(hosts, 1.0, 0.0):
        host, way = link.name.split("/")
        position, axis = hosts.index(host), "xyzabc".index(way[0])
        place = position // strides[axis] % shape[axis]
        moved = (place + (1 if way[1] == "+" else -1)) % shape[axis]
        result[link.name] = (position, position + (moved - place) * strides[axis])
    return result


def distances(links: dict[str, tuple[int, int]], start: int) -> dict[int, int]:
    """Hops from one node to all others, by breadth-first search."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        for source, target in links.values():
            if source == here and target not in found:
                found[target] = found[here] + 1
                waiting.append(target)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_torus_routes_are_connected_and_shortest(shape: tuple[int, ...]) -> None:
    torus, hosts = Torus(shape), names(math.prod(shape))
    links = ends(shape, hosts)
    for source in range(0, len(hosts), 5):
        hops = distances(links, source)
        for target in range(len(hosts)):
            route, here = torus.route(hosts, source, target), source
            for name in route:
                assert links[name][0] == here
                here = links[name][1]
            assert (here, len(route)) == (target, hops[target])


def test_torus_mean_distance_is_a_quarter_of_each_even_axis() -> None:
    torus, hosts = Torus((4, 4, 4)), names(64)
    total = sum(len(torus.route(hosts, source, target)) for source in range(64) for target in range(64))
    assert total / 64**2 == 3 * 4 / 4


def test_torus_route_finishes_one_axis_before_the_next() -> None:
    route = Torus((4, 4, 4)).route(names(64), 0, 63)
    assert route == ["worker:0/x-", "worker:48/y-", "worker:60/z-"]
    axes = [name[-2] for name in Torus((6, 6, 6)).route(names(216), 0, 2 * 36 + 2 * 6 + 2)]
    assert "".join(axes) == "xxyyzz"


def test_torus_tie_goes_in_the_positive_direction() -> None:
    assert Torus((4,)).route(names(4), 3, 1) == ["worker:3/x+", "worker:0/x+"]
    assert Torus((2,)).route(names(2), 1, 0) == ["worker:1/x+"]


def test_torus_uniform_traffic_loads_links_of_odd_rings_equally() -> None:
    torus, hosts = Torus((5, 3)), names(15)
    load = Counter(name for source in range(15) for target in range(15) for name in torus.route(hosts, source, target))
    by_axis = {axis: {count for name, count in load.items() if f"/{axis}" in name} for axis in "xy"}
    assert by_axis == {"x": {3 * (1 + 2)}, "y": {5 * 1}}  # distances 1 and 2 one way round, for every other coordinate


def test_torus_port_is_every_link_at_the_node() -> None:
    shape, hosts = (3, 4), names(12)
    links = ends(shape, hosts)
    for host in range(12):
        assert set(Torus(shape).port(hosts, host)) == {name for name, pair in links.items() if host in pair}


def test_torus_axis_of_one_has_no_links() -> None:
    assert [link.name for link in Torus((1, 2)).links(names(2), 1.0, 0.0)] == ["worker:0/y+", "worker:0/y-", "worker:1/y+", "worker:1/y-"]


@pytest.mark.parametrize("count", [15, 17, 0])
def test_torus_with_another_number_of_hosts_is_refused(count: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"has 16 nodes, but {count} hosts"):
        Torus((4, 4)).links(names(count), 1.0, 0.0)


def test_racks_fill_in_order_and_the_last_may_be_short() -> None:
    racks, hosts = Racks(tasks_per_rack=2, oversubscription=4.0, hop_latency=1e-6), names(5)
    assert racks.route(hosts, 0, 1) == ["worker:0/out", "worker:1/in"]
    assert racks.route(hosts, 4, 1) == ["worker:4/out", "rack:2/up", "rack:0/down", "worker:1/in"]
    uplinks = [link for link in racks.links(hosts, bandwidth=10.0, latency=1.0) if link.name.startswith("rack")]
    assert [link.name for link in uplinks] == [f"rack:{rack}/{way}" for rack in range(3) for way in ("up", "down")]
    assert {(link.bandwidth, link.latency) for link in uplinks} == {(2 * 10.0 / 4.0, 1e-6)}


@pytest.mark.parametrize("topology", [FlatSwitch(), Racks(3), Torus((2, 3))])
def test_every_name_on_a_route_or_port_is_a_link(topology: Topology) -> None:
    hosts = names(6)
    links = [link.name for link in topology.links(hosts, 1.0, 0.0)]
    used = [name for a in range(6) for b in range(6) if a != b for name in topology.route(hosts, a, b)]
    assert len(links) == len(set(links)) and set(used) <= set(links)
    assert {name for host in range(6) for name in topology.port(hosts, host)} <= set(links)


class UsersOwn(FlatSwitch):
    """A user's own, which gives these links, or this route."""

    def __init__(self, links: Any = None, route: Any = None) -> None:
        object.__setattr__(self, "given", (links, route))

    def links(self, hosts: Sequence[str], bandwidth: float, latency: float) -> Any:
        return self.given[0] or super().links(hosts, bandwidth, latency)  # type: ignore[attr-defined]

    def route(self, hosts: Sequence[str], source: int, target: int) -> Any:
        return self.given[1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (["nowhere"], r"UsersOwn\.route\(hosts, 0, 1\) gave the link 'nowhere', which its links\(\.\.\.\) do not have"),
        ([], r"UsersOwn\.route\(hosts, 0, 1\) gave no link\. Give the names of the links from worker:0 to worker:1"),
        (None, "gave no link"),
        (["worker:0/out", "worker:0/out"], r"gave the link 'worker:0/out' twice\. .* in the order of travel, each once\."),
    ],
)
def test_a_route_over_links_that_are_not_there_is_refused(route: Any, message: str) -> None:
    wiring = Wiring(Network(topology=UsersOwn(route=route)), names(2))
    with pytest.raises(InvalidArgumentError, match=message):
        wiring.route("worker:0", "worker:1")


def test_exception_for_a_port_with_links_that_are_not_there_is_refused() -> None:
    link = LinkModel(name="wire", bandwidth=1.0, latency=0.0)
    with pytest.raises(
        InvalidArgumentError, match=r"UsersOwn\.port\(hosts, 1\) gave the link 'worker:1/out', which its links\(\.\.\.\) do not"
    ):
        Wiring(Network(topology=UsersOwn(links=[link])).with_port("worker:1", latency=1.0), names(2))


def test_links_of_a_users_topology_are_link_models_each_with_its_name() -> None:
    link = LinkModel(name="wire", bandwidth=1.0, latency=0.0)
    with pytest.raises(InvalidArgumentError, match=r"UsersOwn\.links\(hosts, bandwidth, latency\) gave two links 'wire'"):
        Wiring(Network(topology=UsersOwn(links=[link, link])), names(2))
    with pytest.raises(TypeError, match=r"gave \('wire', 1\.0\); expected LinkModel\(name="):
        Wiring(Network(topology=UsersOwn(links=[("wire", 1.0)])), names(2))
