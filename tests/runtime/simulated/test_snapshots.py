"""Parameter servers with snapshots: what they go on from, what is lost with machines and disks, what is torn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import UnavailableError
from simdist.hardware import DiskModel
from simdist.runtime.simulated import server_recovery
from tests.coordinator.rounds_of_training import Trained, killed, moments, trained


def test_a_server_with_snapshots_goes_on_from_the_last_one() -> None:
    result = trained(60, killed("crash", "ps:0", 0.006), recovery="checkpoint")
    undisturbed = trained(60, recovery="checkpoint")
    assert 0.0 < result.weights["count"] < 60.0  # it lies on ps:0; what came after the snapshot is lost
    assert undisturbed.weights["count"] == 60.0
    (back,) = [span for span in result.cluster.trace.spans.where(category="setup") if span.lane == "ps:0"]
    assert back.start_s == pytest.approx(0.006 + server_recovery.SERVER_RESTART_S)
    assert {span.lane for span in result.cluster.trace.spans.where(category="checkpoint")} == {"ps:0", "ps:1"}


def test_versions_of_a_server_that_went_back_are_counted_on() -> None:
    result = trained(60, killed("crash", "ps:0", 0.006), recovery="checkpoint")
    (back,) = [mark for mark in result.cluster.trace.instants.where(category="rollback") if mark.facts["variables"] == "count"]
    applied = [span for span in result.applied if "read_version" in span.facts]
    for server in ("ps:0", "ps:1"):
        versions = [span.facts["version"] for span in applied if span.lane == server]
        assert versions == sorted(set(versions))
    assert {span.facts["version"] - 1 - span.facts["read_version"] for span in applied} <= set(range(5))  # four workers, and the rollback
    assert result.weights["count"] + back.facts["updates"] == 60.0


def test_what_is_rolled_back_is_recorded_where_it_is_back() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:0", at=0.006, restart_after=0.0)
        cluster.faults.crash("ps:0", at=0.0105, restart_after=1.0)

    result = trained(120, plan, recovery="checkpoint")
    backs = [mark for mark in result.cluster.trace.instants.where(category="rollback") if mark.facts["variables"] == "count"]
    assert result.weights["count"] + sum(mark.facts["updates"] for mark in backs) == 120.0
    assert sum(row["rolled_back_updates"] for row in result.cluster.trace.summary()["failures"]) >= 120.0 - result.weights["count"]


def test_variables_without_a_snapshot_are_lost() -> None:
    with pytest.raises(UnavailableError, match="no complete snapshot of its variables yet"):
        trained(60, killed("crash", "ps:0", 0.0005), recovery="checkpoint")


def test_snapshots_are_lost_with_their_machine() -> None:
    with pytest.raises(UnavailableError):
        trained(60, killed("lose_host", "ps:0", 0.006), recovery="checkpoint")


LOST_DISKS: dict[str, Callable[[sd.Cluster], object]] = {
    "crash": lambda cluster: cluster.faults.crash("ps:0", at=0.006, keep_disk=False),
    "preemption": lambda cluster: cluster.faults.preempt("ps:0", notice=0.002, at=0.004, restart_after=1.0),
    "after a crash": lambda cluster: (cluster.faults.crash("ps:0", at=0.006), cluster.faults.lose_host("ps:0", at=0.5)),
}


@pytest.mark.parametrize("how", LOST_DISKS)
def test_snapshots_are_lost_with_their_disk(how: str) -> None:
    with pytest.raises(UnavailableError, match="a disk that was lost with its machine"):
        trained(60, LOST_DISKS[how], recovery="checkpoint")


def snapshots_of(result: Trained, lane: str = "ps:0") -> list[Any]:
    return [span for span in result.cluster.trace.spans.where(category="checkpoint") if span.lane == lane]


def test_a_snapshot_takes_longer_on_a_slow_disk() -> None:
    healthy = snapshots_of(trained(60, recovery="checkpoint"))
    slow = snapshots_of(trained(60, lambda cluster: cluster.faults.disk_slow("ps:0", 3.0, at=0.0), recovery="checkpoint"))
    assert slow[-1].duration_s == pytest.approx(3.0 * healthy[-1].duration_s)


def test_a_snapshot_that_does_not_fit_is_told_and_tried_again() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.disk_full("ps:0", at=0.0, until=15.0)
        cluster.faults.crash("ps:0", at=25.0)
        cluster.engine.after(30.0, lambda: None)  # there is something to wait for

    result = trained(60, plan, recovery="checkpoint")
    sd.sleep(40.0, result.cluster)
    told = [mark for mark in result.cluster.trace.instants.where(category="checkpoint") if mark.lane == "ps:0"]
    assert told and {mark.name for mark in told} == {"no snapshot: the disk is full"} and all(mark.time_s < 15.0 for mark in told)
    assert [span.start_s for span in snapshots_of(result)] == [pytest.approx(20.0)]
    (back,) = [span for span in result.cluster.trace.spans.where(category="setup") if span.lane == "ps:0"]
    assert back.start_s == pytest.approx(25.0 + server_recovery.SERVER_RESTART_S) and result.weights["count"] == 60.0


@pytest.mark.parametrize("torn", [False, True])
def test_a_server_goes_back_behind_a_torn_snapshot(torn: bool) -> None:
    """It finds out when it needs it; until then it believes that all is saved, and writes no other."""

    def plan(cluster: sd.Cluster) -> None:
        if torn:
            cluster.faults.torn_write("ps:0", at=9.0)
        cluster.faults.crash("ps:0", at=25.0, restart_after=1.0)

    result = trained(60, plan, recovery="checkpoint")
    sd.sleep(30.0, result.cluster)
    (last,) = [span for span in snapshots_of(result) if span.start_s > 9.0]
    assert last.start_s == pytest.approx(10.0)
    recovery = result.cluster.world.recoveries["ps:0"]
    assert recovery.is_serving and not recovery.is_lost
    steps = float(result.variables[-1].numpy())
    assert steps == 60.0 if not torn else 0.0 < steps < 60.0


@pytest.mark.parametrize("full", [False, True])
def test_what_a_torn_snapshot_leaves_is_lost_when_it_is_overwritten(full: bool) -> None:
    """There are two files, in turns, and nobody knows yet that one of them is torn. Where there is no room, nothing is overwritten."""

    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.torn_write("ps:0", at=9.0)
        if full:
            cluster.faults.disk_full("ps:0", at=12.0)
        cluster.faults.disk_slow("ps:0", 1000.0, at=12.0)
        cluster.faults.crash("ps:0", at=15.3)

    result = trained(60, plan, recovery="checkpoint")
    sd.sleep(15.0, result.cluster)
    w = result.variables[0]
    w.assign(w.numpy() + 1.0)
    sd.sleep(10.0, result.cluster)
    assert result.cluster.world.recoveries["ps:0"].is_lost is not full


def test_updates_of_a_round_that_are_lost_with_a_server_are_told() -> None:
    told: list[str] = []
    for at in moments(20, 0.004):
        try:
            result = trained(40, killed("crash", "ps:0", 0.002 + at), recovery="checkpoint", mode="sync")
        except UnavailableError:
            continue
        told += [mark.name for mark in result.cluster.trace.instants.where(category="drop") if mark.lane == "ps:0"]
    assert any("were lost with the server's memory" in text for text in told)


@pytest.mark.parametrize("other_work", [False, True])
def test_what_was_restored_is_in_a_snapshot_before_the_next_interval(other_work: bool, tmp_path: Path) -> None:
    """A server that went back to what was there before the restore would leave half of a model."""
    cluster = sd.Cluster({"worker": 1, "ps": 2}, disks=DiskModel(write_bandwidth=1000.0))
    strategy = sd.ParameterServerStrategy(cluster, recovery="checkpoint")
    with strategy.scope():
        variables = [sd.Variable(np.zeros(50, np.float32)) for _ in range(4)]
    sd.ClusterCoordinator(strategy)
    checkpoint = sd.Checkpoint(variables=variables)
    for variable in variables:
        variable.assign(np.ones(50))
    path = checkpoint.save(tmp_path / "ckpt")
    for variable in variables:
        variable.assign(np.full(50, 2.0))
    sd.sleep(0.1 if other_work else 5.0, cluster)  # 0.4 s are one snapshot
    checkpoint.restore(path)
    cluster.faults.crash("ps:1", at=cluster.now + 2.0)
    sd.sleep(8.0, cluster)
    assert [float(variable.numpy().mean()) for variable in variables] == [1.0] * 4
    cluster.close()
