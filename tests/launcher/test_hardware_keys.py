"""Devices, disks and networks of a cluster file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simdist import hardware
from simdist.errors import InvalidArgumentError
from simdist.hardware import Device, DiskModel, Network, Racks, TwoPoint
from simdist.launcher.hardware_keys import DEVICES, DISKS, NETWORKS, read_disks, read_hardware, read_network
from simdist.launcher.toml_table import TomlTable


def devices(value: Any) -> Any:
    return read_hardware(TomlTable("c.toml", "", {"hardware": value}), ["chief", "worker", "ps"])


def disks(value: Any) -> Any:
    return read_disks(TomlTable("c.toml", "", {"disks": value}), ["chief", "worker", "ps"])


def network(value: Any) -> Any:
    return read_network(TomlTable("c.toml", "", {"network": value}))


def test_presets_are_those_of_the_package() -> None:
    assert (DEVICES["a100"], NETWORKS["ethernet_25g"]) == (hardware.a100, hardware.ethernet_25g)
    assert "pcie4" not in NETWORKS and "ssd" not in DEVICES
    assert set(DISKS) == {"nvme", "ssd", "hdd"}


def test_preset_of_all_tasks_and_of_each_job() -> None:
    assert devices("h100") == hardware.h100
    assert devices({"worker": "a100", "ps": "server_cpu"}) == {"worker": hardware.a100, "ps": hardware.server_cpu}
    assert disks("ssd") == hardware.ssd
    assert disks({"chief": "hdd", "ps": "nvme"}) == {"chief": hardware.hdd, "ps": hardware.nvme}
    assert network("infiniband_hdr") == hardware.infiniband_hdr


def test_figures_alone_and_over_a_preset() -> None:
    assert devices({"ps": {"flops": 1e12}}) == {"ps": Device(flops=1e12)}
    assert devices({"ps": {"preset": "a100", "memory": 64e9}}) == {"ps": replace(hardware.a100, memory=64e9)}
    assert disks({"ps": {"preset": "hdd", "capacity": 1e9}, "worker": {"fsync": 1.0}}) == {
        "ps": replace(hardware.hdd, capacity=1e9),
        "worker": DiskModel(fsync=1.0),
    }
    assert network({"bandwidth": 1e9, "latency": 0.0}) == Network(bandwidth=1e9, latency=0.0)


def test_parts_of_hardware_are_tables_with_their_class() -> None:
    jitter = {"is": "TwoPoint", "low": 1.0, "high": 5.0, "probability": 0.1}
    assert devices({"worker": {"jitter": jitter}})["worker"].jitter == TwoPoint(1.0, 5.0, 0.1)
    racks = {"is": "Racks", "tasks_per_rack": 4, "oversubscription": 2.0}
    assert network({"preset": "ethernet_10g", "topology": racks}).topology == Racks(4, 2.0)


def test_missing_keys_leave_the_defaults_of_the_cluster() -> None:
    empty = TomlTable("c.toml", "", {})
    assert (read_hardware(empty, ["worker"]), read_disks(empty, ["worker"]), read_network(empty)) == (None, None, None)


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (devices, "a10", r"c\.toml: hardware: the preset 'a10' is not known\. Did you mean 'a100'\?"),
        (devices, {"wroker": "a100"}, r"the key 'wroker' in \[hardware\] is not known\. Did you mean 'worker'\?"),
        (devices, {"worker": "ethernet_1g"}, r"hardware\.worker: the preset 'ethernet_1g' is not known"),
        (devices, {"worker": 5}, r"hardware\.worker is 5; expected the name of a preset"),
        (devices, 5, r"hardware is 5; expected the name of a preset \(.*a100.*\), or a table with one for each job\."),
        (devices, {"worker": {"flop": 1}}, r"the key 'flop' in \[hardware\.worker\] is not known\. Did you mean 'flops'"),
        (devices, {"worker": {"flops": "fast"}}, r"hardware\.worker: .*flops"),
        (devices, {"worker": {"flops": -1.0}}, r"hardware\.worker: .*flops"),
        (devices, {"worker": {"jitter": {"is": "Nothing"}}}, r"hardware\.worker: .*Nothing"),
        (disks, "a100", r"c\.toml: disks: the preset 'a100' is not known"),
        (disks, {"wroker": "ssd"}, r"the key 'wroker' in \[disks\] is not known\. Did you mean 'worker'\?"),
        (disks, {"ps": {"capacity": 0}}, r"disks\.ps: .*capacity"),
        (network, "a100", r"network: the preset 'a100' is not known"),
        (network, {"preset": "ethernet"}, r"network\.preset: the preset 'ethernet' is not known"),
        (network, {"latency": -1.0}, r"network: .*latency"),
        (network, {"overrides": []}, r"the key 'overrides' in \[network\] is not known"),
        (network, 10, r"network is 10; expected the name of a preset"),
    ],
)
def test_wrong_hardware_names_file_and_key(read: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read(value)
