"""The default all-reduce between racks: the one that the simulator itself finds to be the fastest, or nearly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.hardware import FlatSwitch, Network, Racks, ethernet_10g
from simdist.hardware.links import LinkModel

NAMES = ("recursive doubling", "rabenseifner", "ring", "binomial")
NETWORKS = {
    "racks of 4": ethernet_10g.in_racks(4, oversubscription=8.0),
    "racks of 3, far apart": ethernet_10g.in_racks(3, oversubscription=8.0, hop_latency=2e-4),
    "racks of 8": ethernet_10g.in_racks(8, oversubscription=4.0),
    "uplinks that never limit": ethernet_10g.in_racks(4),
}


def seconds(network: Network, workers: int, size: int, algorithm: str | None) -> float:
    """How long the second all-reduce of so many numbers takes; the first one makes routes."""
    cluster = sd.Cluster({"worker": workers}, network=network, numerics="off")
    options = None if algorithm is None else sd.CommunicationOptions(algorithm=algorithm)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, communication_options=options)

    @sd.function
    def step() -> Any:
        return strategy.run(lambda: sd.get_replica_context().all_reduce("sum", np.ones(size, np.float32)))

    step()
    began_s = cluster.now
    step()
    return cluster.now - began_s


@pytest.mark.sample
@pytest.mark.parametrize("size", [100, 30_000, 3_000_000])
@pytest.mark.parametrize("workers", [8, 12])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_default_is_as_fast_as_the_fastest(network: str, workers: int, size: int) -> None:
    best_s = min(seconds(NETWORKS[network], workers, size, name) for name in NAMES)
    assert seconds(NETWORKS[network], workers, size, None) <= 1.03 * best_s


class SlowLast(FlatSwitch):
    """A user's own switch: the port of the last host is ten times slower."""

    def links(self, hosts: Sequence[str], bandwidth: float, latency: float) -> list[LinkModel]:
        usual = super().links(hosts, bandwidth, latency)
        return [replace(link, bandwidth=link.bandwidth / (10 if link.name.startswith(hosts[-1]) else 1)) for link in usual]


def test_the_default_on_a_users_switch_goes_by_the_ports_of_the_workers() -> None:
    network = replace(ethernet_10g, topology=SlowLast())
    assert seconds(network, 3, 8000, None) == min(seconds(network, 3, 8000, name) for name in NAMES)


class Leaves(Racks):
    """A user's own racks, whose links have other names."""

    def links(self, hosts: Sequence[str], bandwidth: float, latency: float) -> list[LinkModel]:
        return [replace(link, name=link.name.replace("rack:", "leaf")) for link in super().links(hosts, bandwidth, latency)]

    def route(self, hosts: Sequence[str], source: int, target: int) -> list[str]:
        return [name.replace("rack:", "leaf") for name in super().route(hosts, source, target)]


def test_the_default_in_a_users_racks_goes_by_the_links_between_them_whatever_their_names() -> None:
    network = replace(ethernet_10g, topology=Leaves(tasks_per_rack=3, oversubscription=8.0))
    assert seconds(network, 8, 1_000_000, None) == min(seconds(network, 8, 1_000_000, name) for name in NAMES)
