"""The tables that a simulated cluster must reproduce: asynchronous SGD's staleness, and the hot spot of a parameter server."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.hardware import Device, Exponential, Jitter, LogNormal, Network, NoJitter, Uniform
from simdist.trace.staleness import stale_updates

FAR_FASTER = Network(bandwidth=1e18, latency=0.0)


def staleness(workers: int, jitter: Jitter, steps: int) -> np.ndarray:
    """How stale each update of an asynchronous run was, when a step takes one second times the jitter."""
    device = Device(launch_overhead=0.0, jitter=jitter)
    # The server needs a moment for each update: workers that push together go on one after the other.
    hardware = {"worker": device, "ps": Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=1e-4)}
    with sd.Cluster({"worker": workers, "ps": 1}, seed=3, hardware=hardware, network=FAR_FASTER, numerics="off") as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            v = sd.Variable(0.0, name="v")

        @sd.function(seconds=1.0)
        def step() -> Any:
            v.assign_add(v.value * 0.0 + 1.0)

        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(steps // 20):
            coordinator.schedule_steps(step, (), {}, 20)
        coordinator.join()
        return stale_updates(cluster.trace).staleness


@pytest.mark.parametrize("jitter", [NoJitter(), Exponential(), Uniform(0.5, 1.5), LogNormal(0.5)], ids=lambda jitter: type(jitter).__name__)
@pytest.mark.parametrize("workers", [2, 4, 8, 16])
@pytest.mark.sample
def test_mean_staleness_is_the_number_of_the_other_workers(workers: int, jitter: Jitter) -> None:
    # The first updates cannot be stale yet, and the last ones run out of company.
    settled = staleness(workers, jitter, 160 * workers)[10 * workers : -20 * workers]
    assert settled.mean() == pytest.approx(workers - 1, rel=0.01)


def test_fixed_step_times_make_every_update_equally_stale() -> None:
    assert set(staleness(8, NoJitter(), 800)[8:-8].tolist()) == {7}


def test_staleness_of_exponential_step_times_is_geometric() -> None:
    settled = staleness(8, Exponential(), 24_000)[100:-200]
    assert (settled == 0).mean() == pytest.approx(1 / 8, rel=0.05)
    assert (settled == 1).mean() == pytest.approx(7 / 64, rel=0.08)


def test_shards_of_one_read_may_have_different_versions() -> None:
    with sd.Cluster({"worker": 4, "ps": 2}, seed=1, numerics="off", hardware=Device(jitter=Exponential())) as cluster:
        strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
        with strategy.scope():
            v = sd.Variable(np.zeros((50_000, 2), np.float32), name="v")

        @sd.function(seconds=1e-3)
        def step() -> Any:
            v.assign_add(v.value * 0.0 + 1.0)

        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(200):
            coordinator.schedule(step)
        coordinator.join()
        applied = cluster.trace.spans.where(category="apply")
        versions: dict[tuple[str, int], dict[str, int]] = {}
        count: dict[tuple[str, str], int] = {}
        for span in applied:
            key = (span.facts["worker"], span.lane)
            count[key] = count.get(key, 0) + 1
            versions.setdefault((span.facts["worker"], count[key]), {})[span.lane] = span.facts["read_version"]
        assert any(len(set(read.values())) > 1 for read in versions.values())


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_round_of_reads_and_pushes_takes_as_long_as_the_busiest_port(workers: int) -> None:
    """T5 for one round: all workers read S bytes and push S bytes at the same moments; N/P of them share a server's port."""
    size, bandwidth, servers = 8_000_000, 1e9, 2
    free = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
    network = Network(bandwidth=bandwidth, latency=0.0)
    with sd.Cluster({"worker": workers, "ps": servers}, hardware=free, network=network, numerics="off") as cluster:
        strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(servers))
        with strategy.scope():
            v = sd.Variable(np.zeros((size // 4,), np.float32), name="v")

        @sd.function(seconds=0.0)
        def step() -> Any:
            v.assign_add(v.value * 0.0 + 1.0)

        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(workers):
            coordinator.schedule(step)
        coordinator.join()
        expected = max(2 * size / bandwidth, 2 * workers * size / (servers * bandwidth))
        assert cluster.now == pytest.approx(expected, rel=1e-9)


def lockstep_round_s(
    workers: int, servers: int, size: int, bandwidth: float = 2e9, network: Network | None = None, shards: bool = True
) -> float:
    """Virtual seconds of one round of pulls and pushes, of S bytes each, by all workers at once."""
    free = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
    network = Network(bandwidth=bandwidth, latency=0.0) if network is None else network
    with sd.Cluster({"worker": workers, "ps": servers}, hardware=free, network=network, numerics="off") as cluster:
        partitioner = sd.FixedShardsPartitioner(servers) if shards else None
        strategy = sd.ParameterServerStrategy(cluster, partitioner, mode="sync")
        with strategy.scope():
            v = sd.Variable(np.zeros((size // 4,), np.float32), name="v")

        @sd.function(seconds=0.0)
        def step() -> Any:
            v.assign_add(v.value * 0.0 + 1.0)

        coordinator = sd.ClusterCoordinator(strategy)
        rounds = 3
        for _ in range(rounds * workers):
            coordinator.schedule(step)
        coordinator.join()
        return cluster.now / rounds


HUNDRED_MB = 100_000_000


@pytest.mark.parametrize(("workers", "expected"), [(1, 0.100), (16, 0.100), (32, 0.200), (100, 0.625)])
def test_t5_rounds_of_a_dense_model_with_16_servers(workers: int, expected: float) -> None:
    assert lockstep_round_s(workers, 16, HUNDRED_MB) == pytest.approx(expected, rel=1e-9)


def test_t5_more_servers_never_make_it_slower() -> None:
    times = [lockstep_round_s(8, servers, 8_000_000) for servers in (1, 2, 4, 8, 16)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(times))
    assert times[0] == pytest.approx(8 * times[3], rel=1e-9)


@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_t5_the_knee_is_where_the_ports_of_servers_are_as_wide_as_those_of_their_workers(ratio: int) -> None:
    network = Network(bandwidth=1e9, latency=0.0).with_port("ps:0", bandwidth=ratio * 1e9)
    times = {workers: lockstep_round_s(workers, 1, 8_000_000, network=network) for workers in (1, ratio, ratio + 1, 2 * ratio)}
    alone = 2 * 8_000_000 / 1e9
    assert times[1] == times[ratio] == pytest.approx(alone, rel=1e-9)
    assert times[ratio + 1] == pytest.approx(alone * (ratio + 1) / ratio, rel=1e-9)
    assert times[2 * ratio] == pytest.approx(2 * alone, rel=1e-9)


@pytest.mark.parametrize("fraction", [0.25, 0.5])
def test_t5_a_hot_variable_with_a_part_of_the_model_caps_it_too(fraction: float) -> None:
    """One server has fS bytes whole, and its part of the rest: however many servers there are, a round takes no less than 2NfS/B.

    The hot variable is pushed before the rest. What is read at the same time shares the port of the worker, or those of the servers.
    """
    workers, size, bandwidth = 8, 8_000_000, 2e9
    for servers in (2, 4, 16):
        free = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
        network = Network(bandwidth=bandwidth, latency=0.0)
        with sd.Cluster({"worker": workers, "ps": servers}, hardware=free, network=network, numerics="off") as cluster:
            counts = [1, servers]
            strategy = sd.ParameterServerStrategy(cluster, lambda shape, dtype: [counts.pop(0)], mode="sync")  # noqa: B023
            with strategy.scope():
                hot = sd.Variable(np.zeros(int(fraction * size) // 4, np.float32), name="hot")
                rest = sd.Variable(np.zeros(int((1 - fraction) * size) // 4, np.float32), name="rest")

            @sd.function(seconds=0.0)
            def step() -> Any:
                values = [hot.value * 0.0 + 1.0, rest.value * 0.0 + 1.0]  # noqa: B023
                hot.assign_add(values[0]), rest.assign_add(values[1])  # noqa: B023

            coordinator = sd.ClusterCoordinator(strategy)
            for _ in range(2 * workers):
                coordinator.schedule(step)
            coordinator.join()
            rest_bytes = (1 - fraction) * size * max(workers / servers, 1.0)  # at the busiest port
            assert cluster.now / 2 == pytest.approx(2 * (workers * fraction * size + rest_bytes) / bandwidth, rel=1e-9)
            assert cluster.now / 2 >= 2 * workers * fraction * size / bandwidth


def test_t5_one_hot_variable_caps_what_servers_gain() -> None:
    """A variable that lies on one server is all of the model (f = 1): however many servers there are, it takes 2NS/B."""
    for servers in (1, 4, 16):
        assert lockstep_round_s(8, servers, 8_000_000, shards=False) == pytest.approx(2 * 8 * 8_000_000 / 2e9, rel=1e-9)
