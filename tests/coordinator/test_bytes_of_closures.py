"""Large arguments of closures travel from the chief to the worker, and large results back, whatever befalls them on their way."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.program.arrays import bytes_of_arrays
from simdist.runtime.simulated.worker_loop import PACKET_BYTES
from simdist.session.present import flights

MEGABYTE = np.ones(250_000, np.float32)
BANDWIDTH, LATENCY_S = 1e9, 1e-4


def trained(
    argument: object, workers: int = 1, closures: int = 1, befall: Callable[[sd.Cluster], object] = lambda _: None, plain: bool = False
) -> tuple[sd.Cluster, list[float]]:
    """A cluster in which closures with an argument were run, and when each of them began."""
    network = sd.hardware.Network(bandwidth=BANDWIDTH, latency=LATENCY_S)
    cluster = sd.Cluster({"worker": workers, "ps": 1}, network=network)
    befall(cluster)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        total = sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(lambda x: total.assign_add(x.sum() / x.size))
    values = [coordinator.schedule((lambda x: x.size) if plain else step, args=(argument,)) for _ in range(closures)]
    coordinator.join()
    assert plain or total.numpy() == closures
    assert not plain or [value.fetch() for value in values] == [np.size(argument)] * closures
    return cluster, sorted(span.start_s for span in cluster.trace.spans.where(category="closure"))


def test_what_fits_into_a_packet_takes_a_latency_alone() -> None:
    for size in (1, PACKET_BYTES // 4):
        cluster, began_s = trained(np.ones(size, np.float32))
        assert began_s == [LATENCY_S]
        assert ("chief:0", "bytes_sent") not in cluster.trace.totals


@pytest.mark.parametrize("plain", [False, True])
def test_more_takes_the_time_of_its_bytes(plain: bool) -> None:
    cluster, began_s = trained(MEGABYTE, plain=plain)
    assert began_s == pytest.approx([LATENCY_S + MEGABYTE.nbytes / BANDWIDTH])
    assert cluster.trace.totals["chief:0", "bytes_sent"] == MEGABYTE.nbytes


def test_all_arrays_of_all_arguments_count_once_and_nothing_else_does() -> None:
    network = sd.hardware.Network(bandwidth=BANDWIDTH, latency=LATENCY_S)
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, network=network))
    coordinator = sd.ClusterCoordinator(strategy)
    arguments = {"x": MEGABYTE, "n": (MEGABYTE.copy(), 3, "text"), "again": [MEGABYTE]}
    coordinator.schedule(lambda x, y: None, args=(arguments,), kwargs={"y": np.float32(1.0)})
    coordinator.join()
    assert strategy.cluster.trace.totals["chief:0", "bytes_sent"] == 2 * MEGABYTE.nbytes + 4


def test_workers_share_the_port_of_the_chief() -> None:
    _, began_s = trained(MEGABYTE, workers=4, closures=4)
    assert began_s == pytest.approx([LATENCY_S + 4 * MEGABYTE.nbytes / BANDWIDTH] * 4)


@pytest.mark.parametrize(
    "befall",
    [
        lambda cluster: cluster.faults.crash("worker:0", at=5e-4, restart_after=1e-3),
        lambda cluster: cluster.faults.partition(["chief:0"], ["worker:0"], at=5e-4, until=2e-3),
        lambda cluster: cluster.faults.pause("worker:0", at=5e-4, until=5e-3),
        lambda cluster: cluster.faults.pause("worker:0", at=5e-4, until=60.0),
        lambda cluster: cluster.faults.duplicate("chief:0", "worker:0", kind="closure", at=0.0),
        lambda cluster: cluster.faults.delay("chief:0", "worker:0", 1e-3, kind="closure", at=0.0),
        lambda cluster: cluster.faults.drop("chief:0", "worker:0", kind="closure", at=0.0, until=1e-3),
        lambda cluster: cluster.faults.slow_link("chief:0", "worker:0", 10.0, at=5e-4),
        lambda cluster: cluster.faults.lose_host("worker:0", at=5e-4, restart_after=1e-3),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_closure_whose_bytes_are_on_their_way_is_run_once(workers: int, befall: Callable[[sd.Cluster], object]) -> None:
    cluster, began_s = trained(MEGABYTE, workers, closures=2, befall=befall)
    assert len(began_s) == 2 and began_s[0] > LATENCY_S
    assert not [task.name for task in cluster.engine.world.tasks.values() if task.calls]


def test_the_bytes_to_a_worker_that_dies_leave_the_port_to_others() -> None:
    _, began_s = trained(MEGABYTE, workers=2, closures=2, befall=lambda cluster: cluster.faults.crash("worker:0", at=5e-4))
    shared_s = 5e-4 - LATENCY_S  # of which each had the half
    assert began_s[0] == pytest.approx(5e-4 + (MEGABYTE.nbytes - shared_s * BANDWIDTH / 2) / BANDWIDTH)


def test_a_worker_that_is_paused_when_the_bytes_have_come_begins_when_it_goes_on() -> None:
    _, began_s = trained(MEGABYTE, befall=lambda cluster: cluster.faults.pause("worker:0", at=5e-4, until=5e-3))
    assert began_s == [5e-3]


def test_the_bytes_are_seen_on_their_way() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1}, network=sd.hardware.Network(bandwidth=BANDWIDTH, latency=LATENCY_S))
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    coordinator.schedule(np.sum, args=(MEGABYTE,))
    sd.sleep(5e-4, cluster)
    (flight,) = flights(cluster)
    assert (flight.source, flight.target, flight.kind, flight.size_bytes) == ("chief:0", "worker:0", "closure", MEGABYTE.nbytes)
    coordinator.join()
    assert flights(cluster) == []


def seen_on_the_worker(cluster: sd.Cluster) -> list[tuple[str, float, float]]:
    spans = cluster.trace.spans.where(lane="worker:0")
    shown = sorted((span.start_s, span.end_s, span.name) for span in spans if span.category in ("transfer", "closure"))
    return [(name, start_s, end_s) for start_s, end_s, name in shown]


def test_the_trace_shows_when_bytes_travelled_and_what_waited_for_them() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1}, network=sd.hardware.Network(bandwidth=BANDWIDTH, latency=LATENCY_S))
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    for _ in range(2):
        coordinator.schedule(sd.function(lambda x: 2.0 * x), args=(MEGABYTE,))
    coordinator.join()
    travel_s, parts = LATENCY_S + MEGABYTE.nbytes / BANDWIDTH, seen_on_the_worker(cluster)
    names = [f"{what}closure {number}" for number in (0, 1) for what in ("arguments of ", "", "reply of ")]
    assert [name for name, _, _ in parts] == names
    assert [end_s - start_s for name, start_s, end_s in parts if " of " in name] == pytest.approx([travel_s] * 4)
    assert [end_s for _, _, end_s in parts[:-1]] == pytest.approx([start_s for _, start_s, _ in parts[1:]])
    path = cluster.trace.critical_path()
    assert path.waited_s == pytest.approx(0.0, abs=1e-12) and path.seconds["transfer"] == pytest.approx(4 * travel_s)


def test_a_paused_worker_has_the_bytes_when_they_are_there_and_reads_them_later() -> None:
    cluster, began_s = trained(MEGABYTE, befall=lambda cluster: cluster.faults.pause("worker:0", at=5e-4, until=5e-3))
    ((_, start_s, end_s), closure) = seen_on_the_worker(cluster)
    assert (start_s, end_s, closure[1], began_s[0]) == pytest.approx((0.0, LATENCY_S + MEGABYTE.nbytes / BANDWIDTH, 5e-3, 5e-3))


def test_what_comes_after_the_word_that_it_was_given_away_is_not_run() -> None:
    """Bytes are slower than words: the worker was only cut off from the other side, and is heard again before they have come."""
    slow = sd.hardware.Network(bandwidth=1e4, latency=LATENCY_S)  # the bytes take 100 s
    cluster = sd.Cluster({"worker": 2, "ps": 1}, network=slow)
    cluster.faults.partition(["worker:0"], ["chief:0"], at=1.0, until=60.0, one_way=True)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    seen: list[str] = []
    for _ in range(2):
        coordinator.schedule(lambda x: seen.append(x.shape), args=(MEGABYTE,))
    coordinator.join()
    sd.sleep(300.0, cluster)
    assert len(seen) == 2


RESULTS: dict[str, Callable[[], object]] = {
    "step": lambda: sd.function(lambda: np.zeros(250_000, np.float32) + jnp.float32(1.0)),
    "plain": lambda: lambda: {"x": [MEGABYTE], 7: "text"},
}


def fetched(kind: str, befall: Callable[[sd.Cluster], object] = lambda _: None) -> sd.Cluster:
    """A cluster in which a closure with a large result was run."""
    cluster = sd.Cluster({"worker": 1, "ps": 1}, network=sd.hardware.Network(bandwidth=BANDWIDTH, latency=LATENCY_S))
    befall(cluster)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    value = coordinator.schedule(RESULTS[kind]())
    coordinator.join()
    assert bytes_of_arrays(value.fetch()) == MEGABYTE.nbytes
    return cluster


@pytest.mark.parametrize("kind", RESULTS)
def test_a_large_result_takes_the_time_of_its_bytes(kind: str) -> None:
    cluster = fetched(kind)
    (closure,) = cluster.trace.spans.where(category="closure")
    assert cluster.now - closure.end_s == pytest.approx(LATENCY_S + MEGABYTE.nbytes / BANDWIDTH)
    assert cluster.trace.totals["worker:0", "bytes_sent"] == MEGABYTE.nbytes


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize(
    ("befall", "runs"),
    [
        (lambda cluster: cluster.faults.crash("worker:0", at=1e-3, restart_after=1e-3), 2),
        (lambda cluster: cluster.faults.partition(["chief:0"], ["worker:0"], at=1e-3, until=2e-3), 2),
        (lambda cluster: cluster.faults.slow_link("worker:0", "chief:0", 10.0, at=1e-3), 1),
    ],
)
def test_a_result_that_is_lost_on_its_way_is_computed_again(kind: str, befall: Callable[[sd.Cluster], object], runs: int) -> None:
    cluster = fetched(kind, befall)
    assert len(list(cluster.trace.spans.where(category="closure"))) == runs


def test_large_updates_of_the_chief_s_variables_travel_with_the_reply() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        kept = sd.Variable(np.zeros(1_000, np.float32), trainable=False, synchronization="on_read", aggregation="sum")
        count = sd.Variable(0.0, trainable=False, synchronization="on_read", aggregation="sum")
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: count.assign_add(1.0)))
    coordinator.join()
    assert ("worker:0", "bytes_sent") not in strategy.cluster.trace.totals
    coordinator.schedule(sd.function(lambda: kept.assign_add(np.ones(1_000, np.float32))))
    coordinator.join()
    assert strategy.cluster.trace.totals["worker:0", "bytes_sent"] == 4_000 and kept.numpy().sum() == 1_000


def test_an_error_brings_no_bytes() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    coordinator.schedule(lambda: {}[MEGABYTE.tobytes()])
    with pytest.raises(KeyError):
        coordinator.join()
    assert ("worker:0", "bytes_sent") not in cluster.trace.totals


def test_updates_of_a_closure_that_fails_bring_no_bytes() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        kept = sd.Variable(np.zeros(1_000, np.float32), trainable=False, synchronization="on_read", aggregation="sum")
    step = sd.function(lambda: kept.assign_add(np.ones(1_000, np.float32)))
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(lambda: {}[step()])
    with pytest.raises((KeyError, TypeError)):
        coordinator.join()
    assert ("worker:0", "bytes_sent") not in strategy.cluster.trace.totals and kept.numpy().sum() == 0.0


def test_what_the_coordinator_runs_itself_sends_nothing() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        assert sd.function(lambda x: x + 1.0)(MEGABYTE).shape == MEGABYTE.shape
    assert ("chief:0", "bytes_sent") not in strategy.cluster.trace.totals
