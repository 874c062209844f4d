"""Bytes from one place to another, for whoever blocks until they have come."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.hardware import Network
from simdist.runtime.delivery import Delivery


@pytest.fixture
def cluster() -> sd.Cluster:
    """Links of 1 kB/s, and half a second to any other task."""
    return sd.Cluster({"worker": 3}, network=Network(bandwidth=1000.0, latency=0.5))


def test_they_take_a_latency_and_their_share_of_the_bandwidth(cluster: sd.Cluster) -> None:
    cluster.engine.deliver([Delivery("worker:0", "worker:1", 1000, "receive")], "numbers", "read")
    assert cluster.now == pytest.approx(1.5)
    assert cluster.trace.totals["worker:0", "bytes_sent"] == 1000.0


@pytest.mark.parametrize("dies", ["worker:0", "worker:1"])
@pytest.mark.parametrize("at_s", [0.25, 0.75])
def test_a_death_at_either_end_is_noticed_a_latency_later_and_frees_the_links(dies: str, at_s: float, cluster: sd.Cluster) -> None:
    cluster.faults.crash(dies, at=at_s, restart_after=0.0)
    with pytest.raises(sd.errors.UnavailableError, match=f"{dies} died while numbers"):
        cluster.engine.deliver([Delivery("worker:0", "worker:1", 1000, "receive")], "numbers", "read")
    assert cluster.now == pytest.approx(at_s + 0.5)
    assert cluster.trace.totals.get(("worker:0", "bytes_sent"), 0.0) == (0.0 if at_s < 0.5 else 1000.0)
    assert all(not link.flows for link in cluster.world.fabric.links())
    assert not any(task.calls for task in cluster.world.tasks.values())


def test_who_is_down_neither_gives_nor_gets(cluster: sd.Cluster) -> None:
    cluster.faults.crash("worker:2", at=0.1)
    sd.sleep(0.2, cluster)
    for ends in (("worker:2", "worker:0"), ("worker:0", "worker:2")):
        with pytest.raises(sd.errors.UnavailableError, match="worker:2 is down"):
            cluster.engine.deliver([Delivery("worker:0", "worker:1", 1000, "receive"), Delivery(*ends, 1, "receive")], "numbers", "read")
        assert not any(task.calls for task in cluster.world.tasks.values()), "the other one is given up"


def test_several_go_side_by_side_and_each_is_recorded_when_it_has_come(cluster: sd.Cluster) -> None:
    sizes = {"worker:1": 500, "worker:2": 1500}
    cluster.engine.deliver([Delivery("worker:0", target, size, f"to {target}") for target, size in sizes.items()], "numbers", "read")
    spans = cluster.trace.spans.where(category="read")
    assert [(span.lane, span.name, span.facts["bytes"]) for span in spans] == [(to, f"to {to}", size) for to, size in sizes.items()]
    # The sender's port is shared until the smaller one has come.
    assert [(span.start_s, span.end_s) for span in spans] == [(0.0, pytest.approx(1.5)), (0.0, pytest.approx(2.5))]
    assert cluster.now == pytest.approx(2.5)
    assert cluster.trace.critical_path().segments[-1].span == spans[1]
    cluster.engine.deliver([], "nothing", "read")
