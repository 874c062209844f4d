"""Workers that wait for each other: stale synchronous parallel (T4), backup workers of parameter servers (T2), and asynchrony as momentum
(T3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist.hardware import Device, Exponential, Jitter, Network, NoJitter, TwoPoint

FAR_FASTER = Network(bandwidth=1e18, latency=0.0)
AT_ONCE = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
WORKERS = 8


def rounds_of(rounds: int, jitter: Jitter, workers: int = WORKERS, slow: bool = False, **options: Any) -> sd.Cluster:
    """A run whose steps take one second times the jitter, and whose servers and links take no time."""
    hardware = {"worker": Device(launch_overhead=0.0, jitter=jitter), "ps": AT_ONCE, "chief": AT_ONCE}
    cluster = sd.Cluster({"worker": workers, "ps": 1}, seed=5, hardware=hardware, network=FAR_FASTER, numerics="off")
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        v = sd.Variable(0.0, name="v")

    @sd.function(seconds=1.0)
    def step() -> Any:
        v.assign_add(v.value * 0.0 + 1.0)

    if slow:
        cluster.faults.slow("worker:0", 2.0, at=0.0)
    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(rounds * workers):
        coordinator.schedule(step)
    coordinator.join()
    return cluster


def iterations_per_s(rounds: int, jitter: Jitter, **options: Any) -> float:
    return rounds / rounds_of(rounds, jitter, **options).now


RARELY_SLOW = TwoPoint(1.0, 5.0, probability=0.1)
T4 = {0: 0.3051, 1: 0.423, 2: 0.505, 4: 0.584, 8: 0.639, 16: 0.667, 64: 0.692}


@pytest.mark.parametrize("staleness", [0, 8])
def test_t4_stale_synchronous_parallel(staleness: int) -> None:
    found = iterations_per_s(500, RARELY_SLOW, mode="bounded", staleness=staleness)
    assert found == pytest.approx(T4[staleness], rel=0.05)


@pytest.mark.exhaustive
@pytest.mark.parametrize("staleness", T4)
def test_t4_stale_synchronous_parallel_in_full(staleness: int) -> None:
    found = iterations_per_s(10_000, RARELY_SLOW, mode="bounded", staleness=staleness)
    assert found == pytest.approx(T4[staleness], rel=0.03)


def test_t4_without_a_bound() -> None:
    assert iterations_per_s(500, RARELY_SLOW) == pytest.approx(0.714, rel=0.03)


def test_t4_bounded_staleness_helps_more_the_larger_it_is() -> None:
    rates = [iterations_per_s(200, RARELY_SLOW, mode="bounded", staleness=staleness) for staleness in (0, 2, 8)]
    assert rates == sorted(rates)


@pytest.mark.parametrize("staleness", [0, 1, 16])
@pytest.mark.sample(2)
def test_t4_a_persistent_straggler_sets_the_pace_for_every_bound(staleness: int) -> None:
    rounds = 200
    cluster = rounds_of(rounds, NoJitter(), slow=True, mode="bounded", staleness=staleness)
    # At the end the others take what the straggler has not begun.
    late = [span for span in cluster.trace.spans.where(category="closure") if span.lane == "worker:0"]
    assert (len(late) - 1) / (late[-1].end_s - late[0].end_s) == pytest.approx(0.5, rel=1e-6)
    others = [span for span in cluster.trace.spans.where(category="closure") if span.lane == "worker:1" and span.end_s <= late[-1].end_s]
    assert len(others) - len(late) <= staleness + 1


def harmonic(number: int) -> float:
    return math.fsum(1.0 / each for each in range(1, number + 1))


@pytest.mark.parametrize(("workers", "backups"), sampled([(8, 0), (8, 1), (8, 3)], [(8, 3)]))
def test_t2_the_first_of_exponential_workers(workers: int, backups: int) -> None:
    """A round waits for k of N. Those who come too late begin again with the next round, as an exponential rest is exponential."""
    rounds = 600
    cluster = rounds_of(rounds, Exponential(), workers, mode="sync", backup_workers=backups)
    applied = len(cluster.trace.spans.where(category="apply"))
    expected = harmonic(workers) - harmonic(backups)
    assert cluster.now / applied == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("workers", sampled([4, 8, 16], [4]))
def test_t3_asynchrony_acts_as_momentum(workers: int) -> None:
    """Mitliagkas et al., Asynchrony begets momentum, 2016, theorem 3: momentum 1 - 1/M and rate eta/M, on average over many runs.

    The runs are pieces of one long schedule: the update number k is computed from the version that its worker had read.
    """
    length, rate = 60, 0.4
    applied = rounds_of(12_000 // workers, Exponential(), workers).trace.spans.where(category="apply")
    read = np.array([span.facts["read_version"] for span in applied])
    total = np.zeros(length + 1)
    pieces = range(200, len(read) - length - 200, 20)
    for first in pieces:
        w = np.ones(length + 1)
        for step in range(length):
            w[step + 1] = w[step] - rate * w[max(0, read[first + step] - first)]
        total += w
    mean = total / len(pieces)
    moved = np.diff(mean)
    (momentum, negative_rate), *_ = np.linalg.lstsq(np.stack([moved[:-1], mean[1:-1]], axis=1), moved[1:], rcond=None)
    assert momentum == pytest.approx(1.0 - 1.0 / workers, rel=0.02)
    assert -negative_rate == pytest.approx(rate / workers, rel=0.1)
