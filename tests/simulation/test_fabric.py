"""The fabric: names, figures, routes and exceptions. What flows on it do is in test_fabric_closed_forms.py."""

from __future__ import annotations

import os

import pytest

from fresh_python import run_beside_engine
from simdist import hardware
from simdist.errors import InvalidArgumentError
from simdist.hardware import LinkModel, Network
from simdist.simulation.fabric import Fabric

PLAIN = Network(bandwidth=100.0, latency=1.0).within_host(LinkModel(bandwidth=1000.0, latency=0.25))
BUS = PLAIN.within_host(LinkModel(bandwidth=500.0, latency=0.25, shared=True))
GPUS = {host: [f"{host}/gpu:{i}" for i in range(2)] for host in ("worker:0", "worker:1")}


def hosts(count: int) -> list[str]:
    return [f"worker:{i}" for i in range(count)]


def names(fabric: Fabric, source: str, target: str) -> list[str]:
    return [link.name for link in fabric.route(source, target).links]


def figures(fabric: Fabric) -> dict[str, float]:
    return {link.name: link.bandwidth_bytes_per_s for link in fabric.links()}


def test_flat_switch_joins_the_ports_of_sender_and_receiver() -> None:
    fabric = Fabric(PLAIN, ["chief:0", "worker:0"])
    assert names(fabric, "worker:0", "chief:0") == ["worker:0/out", "chief:0/in"]
    assert fabric.route("worker:0", "chief:0").latency_s == 1.0
    assert figures(fabric) == dict.fromkeys(["chief:0/out", "chief:0/in", "worker:0/out", "worker:0/in"], 100.0)


def test_flat_latency_is_exactly_that_of_the_network() -> None:
    for network in (hardware.ethernet_1g, hardware.ethernet_25g, hardware.infiniband_hdr, Network(latency=0.1 + 0.2)):
        assert Fabric(network, hosts(2)).route("worker:0", "worker:1").latency_s == network.latency


def test_racks_add_uplinks_with_their_bandwidth_and_latency() -> None:
    fabric = Fabric(PLAIN.in_racks(2, oversubscription=4.0, hop_latency=0.125), hosts(4))
    assert names(fabric, "worker:1", "worker:2") == ["worker:1/out", "rack:0/up", "rack:1/down", "worker:2/in"]
    assert fabric.route("worker:1", "worker:2").latency_s == 1.25
    assert fabric.route("worker:0", "worker:1").latency_s == 1.0
    assert fabric.link("rack:0/up").bandwidth_bytes_per_s == 50.0


def test_torus_latency_is_that_of_its_hops() -> None:
    fabric = Fabric(PLAIN.as_torus((4, 4)), hosts(16))
    assert names(fabric, "worker:0", "worker:10") == ["worker:0/x+", "worker:4/x+", "worker:8/y+", "worker:9/y+"]
    assert fabric.route("worker:0", "worker:10").latency_s == 4.0
    assert len(fabric.links()) == 16 * 2 * 2


@pytest.mark.parametrize(
    ("source", "target", "expected", "latency_s"),
    [
        ("worker:0/gpu:0", "worker:0/gpu:1", ["worker:0/gpu:0/out", "worker:0/gpu:1/in"], 0.25),
        ("worker:0/gpu:0", "worker:0", ["worker:0/gpu:0/out"], 0.125),
        ("worker:0", "worker:0/gpu:1", ["worker:0/gpu:1/in"], 0.125),
        ("worker:0/gpu:1", "worker:1/gpu:0", ["worker:0/gpu:1/out", "worker:0/out", "worker:1/in", "worker:1/gpu:0/in"], 1.25),
        ("worker:0", "worker:1/gpu:0", ["worker:0/out", "worker:1/in", "worker:1/gpu:0/in"], 1.125),
    ],
)
def test_devices_with_ports_of_their_own(source: str, target: str, expected: list[str], latency_s: float) -> None:
    fabric = Fabric(PLAIN, hosts(2), GPUS)
    assert names(fabric, source, target) == expected
    assert fabric.route(source, target).latency_s == latency_s
    assert fabric.link("worker:1/gpu:1/in").bandwidth_bytes_per_s == 1000.0


@pytest.mark.parametrize(
    ("source", "target", "expected", "latency_s"),
    [
        ("worker:0/gpu:0", "worker:0/gpu:1", ["worker:0/bus/up", "worker:0/bus/down"], 0.25),
        ("worker:0/gpu:0", "worker:0", ["worker:0/bus/up"], 0.125),
        ("worker:0/gpu:1", "worker:1/gpu:0", ["worker:0/bus/up", "worker:0/out", "worker:1/in", "worker:1/bus/down"], 1.25),
    ],
)
def test_devices_on_a_shared_bus(source: str, target: str, expected: list[str], latency_s: float) -> None:
    fabric = Fabric(BUS, hosts(2), GPUS)
    assert names(fabric, source, target) == expected
    assert fabric.route(source, target).latency_s == latency_s
    assert [name for name in figures(fabric) if "gpu" in name] == []
    assert fabric.link("worker:1/bus/up").bandwidth_bytes_per_s == 500.0


def test_devices_of_racks_and_of_a_torus_travel_over_both() -> None:
    devices = {host: [f"{host}/gpu:0"] for host in hosts(4)}
    racks = Fabric(PLAIN.in_racks(2), hosts(4), devices)
    assert names(racks, "worker:0/gpu:0", "worker:3/gpu:0")[1:-1] == names(racks, "worker:0", "worker:3")
    torus = Fabric(PLAIN.as_torus((2, 2)), hosts(4), devices)
    assert torus.route("worker:0/gpu:0", "worker:3/gpu:0").latency_s == 2 * 1.0 + 0.25


@pytest.mark.parametrize("place", ["worker:0", "worker:0/gpu:1"])
@pytest.mark.parametrize("network", [PLAIN, BUS])
def test_route_to_itself_is_empty(network: Network, place: str) -> None:
    route = Fabric(network, hosts(2), GPUS).route(place, place)
    assert (route.links, route.latency_s) == ((), 0.0)


def test_routes_are_made_once_and_share_the_link_objects() -> None:
    fabric = Fabric(PLAIN, hosts(3))
    assert fabric.route("worker:0", "worker:1") is fabric.route("worker:0", "worker:1")
    assert fabric.route("worker:0", "worker:1").links[0] is fabric.route("worker:0", "worker:2").links[0] is fabric.link("worker:0/out")
    assert all(fabric.link(link.name) is link for link in fabric.links())


def test_order_of_links_is_that_of_the_hosts_whatever_the_order_of_devices() -> None:
    backwards = {host: GPUS[host] for host in reversed(GPUS)}
    first, second = (Fabric(PLAIN.in_racks(1), hosts(2), devices) for devices in (GPUS, backwards))
    assert list(figures(first)) == list(figures(second))
    between, inside = list(figures(first))[:8], list(figures(first))[8:]
    assert between[0] == "worker:0/out" and between[-1] == "rack:1/down"
    assert inside[:3] == ["worker:0/gpu:0/out", "worker:0/gpu:0/in", "worker:0/gpu:1/out"]


def test_order_of_links_does_not_depend_on_hashes() -> None:
    code = (
        "from simdist.hardware import *; from simdist.simulation.fabric import Fabric; "
        "print([link.name for link in Fabric(Network().as_torus((2, 3)), [f'worker:{i}' for i in range(6)]).links()])"
    )
    done = run_beside_engine(code, hash_seed=1 if os.environ.get("PYTHONHASHSEED") != "1" else 2)
    links = Fabric(Network().as_torus((2, 3)), [f"worker:{i}" for i in range(6)]).links()
    assert done.stdout.strip() == str([link.name for link in links]) != "[]"


# -- exceptions -----------------------------------------------------------------------------------------------------------


def test_port_of_a_host_changes_both_directions() -> None:
    fabric = Fabric(PLAIN.with_port("worker:1", bandwidth=10.0, latency=2.0), hosts(3))
    assert figures(fabric) == dict.fromkeys(["worker:0/out", "worker:0/in"], 100.0) | dict.fromkeys(
        ["worker:1/out", "worker:1/in"], 10.0
    ) | dict.fromkeys(["worker:2/out", "worker:2/in"], 100.0)
    assert [fabric.route(*pair).latency_s for pair in [("worker:0", "worker:1"), ("worker:1", "worker:2"), ("worker:0", "worker:2")]] == [
        0.5 + 2.0,
        2.0 + 0.5,
        1.0,
    ]


def test_port_keeps_the_figure_that_is_not_given() -> None:
    slow = Fabric(PLAIN.with_port("worker:1", bandwidth=10.0), hosts(2))
    far = Fabric(PLAIN.with_port("worker:1", latency=9.0), hosts(2))
    assert slow.route("worker:0", "worker:1").latency_s == 1.0
    assert far.link("worker:1/in").bandwidth_bytes_per_s == 100.0


def test_port_of_a_device_and_of_a_bus() -> None:
    fabric = Fabric(PLAIN.with_port("worker:0/gpu:1", bandwidth=3.0), hosts(2), GPUS)
    assert [name for name, bandwidth in figures(fabric).items() if bandwidth == 3.0] == ["worker:0/gpu:1/out", "worker:0/gpu:1/in"]
    fabric = Fabric(BUS.with_port("worker:1/bus", bandwidth=3.0), hosts(2), GPUS)
    assert [name for name, bandwidth in figures(fabric).items() if bandwidth == 3.0] == ["worker:1/bus/up", "worker:1/bus/down"]


@pytest.mark.parametrize(
    ("network", "changed"),
    [
        (PLAIN.with_port("worker:0/gpu:1", bandwidth=3.0), ["worker:0/gpu:1/out", "worker:0/gpu:1/in"]),
        (PLAIN.with_link("worker:0/gpu:1/in", bandwidth=9.0).with_link("worker:0/gpu:1/in", bandwidth=3.0), ["worker:0/gpu:1/in"]),
        (BUS.with_port("worker:0/bus", bandwidth=3.0), ["worker:0/bus/up", "worker:0/bus/down"]),
        (BUS.with_link("worker:0/bus/up", bandwidth=3.0), ["worker:0/bus/up"]),
    ],
)
def test_exception_inside_a_host_is_that_of_a_device_that_a_strategy_adds_later(network: Network, changed: list[str]) -> None:
    fabric = Fabric(network, hosts(2))
    for device in GPUS["worker:0"]:
        fabric.add_device("worker:0", device)
    assert [name for name, bandwidth in figures(fabric).items() if bandwidth == 3.0] == changed
    with pytest.raises(InvalidArgumentError, match="There is no"):
        Fabric(network.with_port("worker:0/gpus", bandwidth=1.0), hosts(2))


def test_port_of_a_torus_node_is_all_its_links() -> None:
    fabric = Fabric(PLAIN.as_torus((3, 3)).with_port("worker:4", bandwidth=1.0), hosts(9))
    changed = {name for name, bandwidth in figures(fabric).items() if bandwidth == 1.0}
    assert len(changed) == 2 * 4
    assert {"worker:4/x+", "worker:1/x+", "worker:7/x-", "worker:3/y+", "worker:5/y-"} <= changed


def test_link_changes_alone_and_the_later_exception_wins() -> None:
    network = PLAIN.in_racks(1).with_link("rack:0/up", bandwidth=7.0, latency=0.5)
    fabric = Fabric(network, hosts(2))
    assert (fabric.link("rack:0/up").bandwidth_bytes_per_s, fabric.link("rack:0/down").bandwidth_bytes_per_s) == (7.0, 100.0)
    assert (fabric.route("worker:0", "worker:1").latency_s, fabric.route("worker:1", "worker:0").latency_s) == (1.5, 1.0)
    later = Fabric(network.with_link("rack:0/up", bandwidth=8.0), hosts(2))
    assert later.link("rack:0/up").bandwidth_bytes_per_s == 8.0
    assert later.route("worker:0", "worker:1").latency_s == 1.5


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (PLAIN.with_port("wroker:1", bandwidth=1.0), r"no port 'wroker:1'.*Did you mean 'worker:1'"),
        (PLAIN.with_port("worker:1/in", bandwidth=1.0), r"no port 'worker:1/in'"),
        (PLAIN.with_link("worker:1", bandwidth=1.0), r"no link 'worker:1'.*Did you mean 'worker:1/in'"),
        (PLAIN.with_link("rack:0/up", bandwidth=1.0), r"no link 'rack:0/up'"),
        (BUS.with_port("worker:0/gpu:1", bandwidth=1.0), r"no port 'worker:0/gpu:1'"),
        (PLAIN.in_racks(1).with_link("rack:2/up", bandwidth=1.0), r"no link 'rack:2/up'.*Did you mean 'rack:[01]/up'"),
    ],
)
def test_exception_for_what_is_not_there_is_refused(network: Network, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Fabric(network, hosts(2), GPUS)


# -- names that are wrong -------------------------------------------------------------------------------------------------


def test_unknown_places_and_links_suggest_the_nearest() -> None:
    fabric = Fabric(PLAIN, hosts(2), GPUS)
    with pytest.raises(InvalidArgumentError, match=r"no host or device 'worker:0/gpu:7'.*Did you mean 'worker:0/gpu:"):
        fabric.route("worker:0", "worker:0/gpu:7")
    with pytest.raises(InvalidArgumentError, match=r"no host or device 'wroker:0'"):
        fabric.route("wroker:0", "wroker:0")
    with pytest.raises(InvalidArgumentError, match=r"no link 'worker:0/ni'.*Did you mean 'worker:0/in'"):
        fabric.link("worker:0/ni")


def test_message_about_a_name_stays_short_in_a_large_network() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Fabric(hardware.tpu_v4_slice, hosts(64)).link("worker:63/w+")
    assert len(str(caught.value)) < 400 and "worker:63/x+" in str(caught.value)


@pytest.mark.parametrize(
    ("names_of_hosts", "devices", "message"),
    [
        (["worker:0", "worker:0"], {}, "'worker:0' is named twice"),
        (["worker:0"], {"worker:0": ["worker:0/gpu:0", "worker:0/gpu:0"]}, "'worker:0/gpu:0' is named twice"),
        (["worker:0"], {"worker:0": ["gpu:0"]}, "has to begin with 'worker:0/'"),
        (["worker:0"], {"worker:0": ["worker:00/gpu:0"]}, "has to begin with 'worker:0/'"),
        (["worker:0"], {"wroker:0": ["wroker:0/gpu:0"]}, "no host 'wroker:0'.*Did you mean 'worker:0'"),
    ],
)
def test_names_that_clash_or_do_not_fit_are_refused(names_of_hosts: list[str], devices: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Fabric(PLAIN, names_of_hosts, devices)


def test_torus_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(4, 4\) has 16 nodes, but 3 hosts"):
        Fabric(PLAIN.as_torus((4, 4)), hosts(3))
