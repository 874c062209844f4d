"""Slices of every generation as strategies."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist import hardware
from simdist.strategies.tpu import HARDWARE

SMALLEST = {"v3-8": 8, "v4-8": 8, "v5e-4": 4, "v5p-8": 8}


@pytest.mark.parametrize(("name", "replicas"), SMALLEST.items())
def test_each_core_is_a_replica_on_the_chips_of_its_generation(name: str, replicas: int) -> None:
    strategy = sd.TPUStrategy(sd.TPUClusterResolver(name))
    core, wires = HARDWARE[name.partition("-")[0]]
    assert strategy.num_replicas_in_sync == replicas == len(strategy.extended.worker_devices)
    assert isinstance(strategy.cluster.hardware, dict) and strategy.cluster.hardware["worker"] == core
    network = strategy.cluster.network
    assert network.bandwidth == wires.bandwidth and network.intra_host_bandwidth == core.memory_bandwidth * replicas / 4
    ranks = strategy.run(lambda: sd.get_replica_context().replica_id_in_sync_group)  # pyright: ignore[reportOptionalMemberAccess]
    assert int(strategy.reduce("sum", ranks, axis=None)) == sum(range(replicas))


@pytest.mark.parametrize("name", SMALLEST)
def test_a_given_cluster_is_of_the_generation_that_it_was_made_for(name: str) -> None:
    strategy = sd.TPUStrategy(cluster=sd.TPUStrategy.make_cluster(name, seed=3))
    assert strategy.cluster_resolver.tpu == name
    assert strategy.num_replicas_in_sync == SMALLEST[name]


def test_a_slice_whose_cores_are_of_no_generation_counts_as_the_fourth() -> None:
    network = hardware.tpu_v4_slice.as_torus((2, 2, 1))
    strategy = sd.TPUStrategy(cluster=sd.Cluster({"worker": 4}, hardware=hardware.a100, network=network))
    assert strategy.cluster_resolver.tpu == "v4-8"
    assert strategy.num_replicas_in_sync == 8
