"""Workers with several devices: what a closure takes on them, against closed forms; pauses, and workers that are given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.hardware import Device, Network

SIDE, ROWS = 40, 64
BYTES = SIDE * SIDE * 4
NETWORK = Network(bandwidth=1e8, latency=1e-3, intra_host_bandwidth=1e9, intra_host_latency=2e-4, intra_host_shared=False)
SERVER = Device(flops=1e18, memory_bandwidth=1e18, launch_overhead=0.0)


def one_closure(
    devices: int, rows: int = ROWS, network: Network = NETWORK, memory: float = 16e9, pauses: Sequence[tuple[float, float]] = ()
) -> tuple[sd.Cluster, float]:
    """The cluster, and the seconds from the dispatch of a closure to its reply."""
    worker = Device(flops=1e8, memory_bandwidth=1e18, memory=memory, launch_overhead=0.0)
    cluster = sd.Cluster({"worker": 1, "ps": 1}, network=network, hardware={"worker": worker, "ps": SERVER, "chief": SERVER})
    for pause in pauses:
        cluster.faults.pause("worker:0", at=pause[0], until=pause[1])
    strategy = sd.ParameterServerStrategy(cluster, devices_per_worker=devices)
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        w = sd.Variable(np.zeros((SIDE, SIDE), np.float32), aggregation="sum", name="w")

    @sd.function
    def step(iterator: Any) -> None:
        def replica(x: Any) -> None:
            w.assign_add((x * 1.0).T @ (x @ w.value))

        strategy.run(replica, args=(next(iterator),))

    dataset = sd.Dataset.from_tensor_slices(np.ones((rows, SIDE), np.float32)).batch(rows).repeat()
    iterator = iter(coordinator.create_per_worker_dataset(strategy.distribute_dataset(dataset)))
    coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    (closure,) = cluster.trace.spans.where(category="closure")
    return cluster, closure.end_s - closure.start_s + 2 * network.latency


def compute_s(cluster: sd.Cluster, lane: str) -> float:
    return sum(span.duration_s for span in cluster.trace.spans.where(lane=lane, category="compute"))


CALL_S = 2 * NETWORK.latency + BYTES / NETWORK.bandwidth
COPY_S = NETWORK.intra_host_latency / 2 + BYTES / NETWORK.intra_host_bandwidth


def test_two_devices_take_half_of_the_compute_and_their_copies_and_sum() -> None:
    alone, alone_s = one_closure(1)
    whole_s = compute_s(alone, "worker:0")
    assert alone_s == pytest.approx(2 * NETWORK.latency + 2 * CALL_S + whole_s, rel=1e-9)
    together, together_s = one_closure(2)
    for device in range(2):
        assert compute_s(together, f"worker:0/gpu:{device}") == pytest.approx(whole_s / 2, rel=0.01)
    half_s = compute_s(together, "worker:0/gpu:0")
    ring_s = 2 * (NETWORK.intra_host_latency + BYTES / 2 / NETWORK.intra_host_bandwidth)
    assert together_s == pytest.approx(2 * NETWORK.latency + 2 * CALL_S + 2 * COPY_S + half_s + ring_s, rel=1e-9)
    path = together.trace.critical_path()
    assert path.waited_s == pytest.approx(NETWORK.latency, rel=1e-9)  # the closure on its way to the worker
    assert sum(path.seconds.values()) == pytest.approx(together_s - 2 * NETWORK.latency, rel=1e-9)
    sent = together.trace.totals["worker:0", "bytes_sent"]
    assert sent == 3 * BYTES  # one update over the network, and the variable to each of the two devices


def test_devices_on_one_bus_share_it_for_the_copies_of_what_was_read() -> None:
    _, own_s = one_closure(2, rows=2)
    _, shared_s = one_closure(2, rows=2, network=replace(NETWORK, intra_host_shared=True))
    # Two copies down one bus take as long as twice the bytes; the ring of two, in which both send at once, likewise.
    extra_s = BYTES / NETWORK.intra_host_bandwidth + 2 * BYTES / 2 / NETWORK.intra_host_bandwidth
    assert shared_s - own_s == pytest.approx(extra_s, rel=1e-6)


def test_each_device_has_a_memory_of_its_own() -> None:
    one_closure(2, memory=100_000)
    with pytest.raises(sd.errors.ResourceExhaustedError, match="worker:0/gpu:0"):
        one_closure(2, rows=4 * ROWS, memory=60_000)


def test_a_pause_of_the_worker_holds_all_its_replicas() -> None:
    calm, calm_s = one_closure(2)
    first = next(iter(calm.trace.spans.where(category="compute")))
    until = first.end_s + 0.5
    paused, paused_s = one_closure(2, pauses=[((first.start_s + first.end_s) / 2, until)])
    ends = {span.lane: span.end_s for span in paused.trace.spans.where(category="compute")}
    assert ends == {"worker:0/gpu:0": until, "worker:0/gpu:1": until}
    assert paused_s == pytest.approx(calm_s + 0.5, rel=1e-9)


def test_a_worker_that_is_given_up_frees_its_devices() -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster, mode="sync", backup_workers=1, devices_per_worker=2)
    with strategy.scope():
        v = sd.Variable(0.0, aggregation="sum")
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function(seconds=1.0)
    def step() -> None:
        strategy.run(lambda: v.assign_add(jnp.float32(1.0) + v.value * 0.0))

    cluster.faults.slow("worker:2", 100.0, at=0.0, until=0.5)
    for _ in range(9):
        coordinator.schedule(step)
    coordinator.join()
    # What it was dropped for would have taken 100 s on both of its devices: the next round finds them free.
    ends = {span.lane: span.end_s for span in cluster.trace.spans.where(category="compute")}
    assert v.numpy() == 18.0 and {"worker:2/gpu:0", "worker:2/gpu:1"} <= ends.keys() and cluster.now < 10.0


@pytest.mark.parametrize("devices", [1, 2])
def test_the_chief_hears_of_a_death_from_the_connection_of_the_worker_alone(devices: int) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, network=NETWORK)
    strategy = sd.ParameterServerStrategy(cluster, devices_per_worker=devices)
    with strategy.scope():
        v = sd.Variable(0.0, aggregation="sum")
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(seconds=1.0)(lambda: strategy.run(lambda: v.assign_add(v.value + jnp.float32(1.0))))
    cluster.faults.crash("worker:0", at=0.5)
    coordinator.schedule(step)
    coordinator.join()
    heard = [(instant.category, instant.time_s) for instant in cluster.trace.instants if instant.category in ("detect", "retry")]
    assert heard == [(what, pytest.approx(0.5 + NETWORK.latency, rel=1e-12)) for what in ("detect", "retry")]
    assert v.numpy() == devices
