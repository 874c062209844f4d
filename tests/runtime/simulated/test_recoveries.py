"""What a program sees of servers that get back what they held, or do not: values, errors that say why, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import ResourceExhaustedError, UnavailableError


@pytest.mark.parametrize(
    ("recovery", "why"),
    [("replica", "The copy of ps:0 on ps:1 was lost too"), ("checkpoint", "snapshots were on a disk that was lost"), ("raise", None)],
)
def test_a_look_at_variables_that_are_lost_says_why_no_recovery_has_brought_them_back(recovery: Any, why: str | None) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, recovery=recovery)
    with strategy.scope():
        first, second = sd.Variable(np.float32(1.0), name="first"), sd.Variable(np.float32(2.0))
    sd.ClusterCoordinator(strategy)
    cluster.faults.crash("ps:1", at=1.0) if recovery == "replica" else None
    cluster.faults.lose_host("ps:0", at=1.1, restart_after=1.0)
    for seconds in (1.5, 10.0):
        sd.sleep(seconds, cluster)  # before and after ps:0 is started again
        for look in (first.numpy, lambda: first.assign(5.0)):
            with pytest.raises(UnavailableError, match=r"^ps:0 has lost its variables \(first\)") as caught:
                look()
            assert why is None or why in str(caught.value)
    if recovery != "replica":
        assert float(second.numpy()) == 2.0


@pytest.mark.parametrize("recovery", ["replica", "checkpoint"])
def test_a_server_whose_variables_are_all_empty_gets_them_back(recovery: Any) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, recovery=recovery)
    with strategy.scope():
        empty, other = sd.Variable(np.zeros((0, 3), np.float32)), sd.Variable(np.float32(2.0))
    coordinator = sd.ClusterCoordinator(strategy)
    cluster.faults.crash("ps:0", at=1.0, restart_after=1.0)
    sd.sleep(5.0, cluster)
    assert empty.numpy().shape == (0, 3)
    assert coordinator.schedule(sd.function(lambda: empty.value.sum() + other.value)).fetch() == 2.0


@pytest.mark.parametrize("second", [None, "ps:0", "ps:1"])
def test_a_variable_made_while_a_server_gets_its_own_back_leaves_room_for_them(second: str | None) -> None:
    cluster = sd.Cluster(
        {"worker": 1, "ps": 2}, hardware={"ps": sd.hardware.Device(memory=3000.0)}, network=sd.hardware.Network(bandwidth=1e3)
    )
    strategy = sd.ParameterServerStrategy(cluster, recovery="replica")
    with strategy.scope():
        first, _ = sd.Variable(np.ones(400, np.float32), name="first"), sd.Variable(np.float32(0.0))
    coordinator = sd.ClusterCoordinator(strategy)
    cluster.faults.crash("ps:0", at=1.0, restart_after=1.0)
    sd.sleep(2.5, cluster)  # 1600 bytes take 1.6 s
    memory = cluster.engine.memory("ps:0")  # type: ignore[attr-defined]
    with strategy.scope(), pytest.raises(ResourceExhaustedError, match=r"of which 1\.6 KiB are in use.*first"):
        sd.Variable(np.ones(500, np.float32))
    if second is None:
        sd.sleep(2.0, cluster)
        assert coordinator.schedule(sd.function(lambda: first.value.sum())).fetch() == 400.0
        assert memory.in_use_bytes == 1600
    else:
        cluster.faults.crash(second, at=cluster.now, restart_after=0.5)
        sd.sleep(0.1, cluster)
        assert memory.in_use_bytes == 0
        sd.sleep(5.0, cluster)
        assert memory.in_use_bytes == (1600 if second == "ps:0" else 0)
