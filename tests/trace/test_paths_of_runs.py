"""Critical paths of whole runs, in closed form: what a run has waited for is known from its program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd

STEP_S = 0.1
MODES: list[dict[str, Any]] = [{}, {"mode": "sync"}, {"mode": "bounded", "staleness": 1}, {"mode": "sync", "recovery": "replica"}]


def in_rounds(mode: dict[str, Any], servers: sd.hardware.Device, closures: int = 10) -> sd.Cluster:
    """Run closures of a tenth of a second on two workers."""
    cluster = sd.Cluster({"worker": 2, "ps": 2}, hardware={"ps": servers}, numerics="off")
    strategy = sd.ParameterServerStrategy(cluster, **mode)
    with strategy.scope():
        w = sd.Variable(np.zeros(4, np.float32), name="w")
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(lambda: w.assign_add(w.value + 1.0), seconds=STEP_S)
    for _ in range(closures):
        coordinator.schedule(step)
    coordinator.join()
    return cluster


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_path_of_rounds_is_what_their_workers_compute(mode: dict[str, Any]) -> None:
    path = in_rounds(mode, sd.hardware.Device()).trace.critical_path()
    assert path.seconds["compute"] == pytest.approx(5 * STEP_S)
    assert path.waited_s < 0.01 * path.end_s


def test_a_read_that_waits_for_a_round_waits_for_its_change() -> None:
    """The servers are so slow that the next round waits for each change."""
    trace = in_rounds({"mode": "sync"}, sd.hardware.Device(launch_overhead=0.05)).trace
    changes = trace.spans.where(category="apply")
    path = trace.critical_path()
    assert len(changes) == 5
    assert path.seconds["compute"] == pytest.approx(5 * STEP_S)
    assert path.seconds["apply"] == pytest.approx(sum(change.duration_s for change in changes))
    assert path.waited_s < 0.01 * path.end_s
