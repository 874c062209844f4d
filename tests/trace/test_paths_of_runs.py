"""Critical paths of whole runs, in closed form: what a run has waited for is known from its program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.hardware.jitter import NO_JITTER, Jitter
from simdist.trace.records import Span

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


# -- steps of replicas ---------------------------------------------------------------------------------------------------


class SideBySide:
    """Two replicas that compute for at least a hundredth of a second each step, and never meet within it."""

    def __init__(self, jitter: Jitter = NO_JITTER, devices: int = 0) -> None:
        self.cluster = sd.Cluster({"worker": 2}, hardware=sd.hardware.Device(jitter=jitter), seed=3)
        strategy = sd.MirroredStrategy(devices, cluster=self.cluster) if devices else sd.MultiWorkerMirroredStrategy(self.cluster)
        with strategy.scope():
            self.variable = sd.Variable(np.zeros(100_000, np.float32))
        self.step = sd.function(lambda: strategy.run(lambda: self.variable.value + 1.0), seconds=0.01)
        self.checkpoint = sd.Checkpoint(variable=self.variable)

    def spans(self, category: str) -> list[Span]:
        return self.cluster.trace.spans.where(category=category)

    def parts(self) -> list[tuple[str, str, float, float]]:
        """What is on the path, whole spans: lane, category, start and end."""
        segments = self.cluster.trace.critical_path().segments
        assert all((part.start_s, part.end_s) == (part.span.start_s, part.span.end_s) for part in segments)
        return [(part.span.lane, part.span.category, part.start_s, part.end_s) for part in segments]


@pytest.mark.parametrize("devices", [0, 2])
def test_path_of_steps_goes_through_the_slower_replica_of_each(devices: int) -> None:
    run = SideBySide(sd.hardware.Uniform(1.0, 3.0), devices)
    for _ in range(8):
        run.step()
    computes = run.spans("compute")
    last = [max(computes[step : step + 2], key=lambda span: span.end_s) for step in range(0, 16, 2)]
    assert run.parts() == [(span.lane, "compute", span.start_s, span.end_s) for span in last]
    assert len({span.lane for span in last}) == 2
    assert run.cluster.trace.critical_path().waited_s == 0.0


# -- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [0, 2])
def test_path_goes_through_a_save_and_a_restore(devices: int, tmp_path: Path) -> None:
    run = SideBySide(devices=devices)
    run.step()
    path = run.checkpoint.save(tmp_path / "saved")
    run.step()
    run.checkpoint.restore(path)
    run.step()
    begun = [run.spans("compute")[step].start_s for step in (0, 2, 4)]
    saved = [(span.lane, "checkpoint", span.start_s, span.end_s) for span in run.spans("checkpoint")]
    steps = [(run.spans("compute")[-1].lane, "compute", start_s, start_s + 0.01) for start_s in begun]
    received = [span for span in run.spans("checkpoint") if span.name.startswith("receive")]
    assert [span.name.split()[0] for span in run.spans("checkpoint")] == ["gather", "write", "read", *["receive"] * len(received)]
    # Values go to the workers side by side: the program waits for those that come last.
    assert run.parts() == [steps[0], *saved[:2], steps[1], saved[2], *saved[3:][-1:], steps[2]]
    assert run.cluster.trace.critical_path().waited_s == pytest.approx(0.0)


def test_a_save_beside_the_training_is_on_the_path_only_of_who_waits_for_it(tmp_path: Path) -> None:
    run = SideBySide()
    run.step()
    run.checkpoint.save(tmp_path / "saved", options=sd.CheckpointOptions(enable_async=True))
    run.step()
    assert [category for _, category, _, _ in run.parts()] == ["compute", "compute"]
    run.checkpoint.save(tmp_path / "again", options=sd.CheckpointOptions(enable_async=True))
    run.checkpoint.sync()
    run.step()
    assert [category for _, category, _, _ in run.parts()] == ["compute", "compute", "checkpoint", "checkpoint", "compute"]


def test_a_snapshot_waits_for_what_its_server_had_changed_before() -> None:
    trace = in_rounds({"recovery": "checkpoint"}, sd.hardware.Device(), closures=300).trace
    snapshot = trace.spans.where(category="checkpoint", name="snapshot")[-1]
    changes = [span for span in trace.spans.where(lane=snapshot.lane, category="apply") if span.end_s <= snapshot.start_s]
    assert snapshot.start_s >= 10.0
    assert trace.record(snapshot.cause) == changes[-1]


# -- copies --------------------------------------------------------------------------------------------------------------


def test_a_replica_that_comes_back_makes_the_next_step_wait_for_its_variables() -> None:
    cluster = sd.Cluster({"worker": 2}, network=sd.hardware.Network(bandwidth=1e6, latency=1e-4))
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")
    with strategy.scope():
        variable = sd.Variable(np.zeros(100_000, np.float32))
    step = sd.function(lambda: strategy.run(lambda: variable.value + 1.0), seconds=1.0)
    cluster.faults.crash("worker:1", at=1.5, restart_after=0.1)
    for _ in range(6):
        step()
    (copy,) = cluster.trace.spans.where(category="read", name="variables of a survivor")
    segments = cluster.trace.critical_path().segments
    assert [part.span for part in segments if part.span.category == "read"] == [copy]
    assert copy.duration_s > 0.4
    assert [part.waited_s for part in segments] == [0.0] * 8  # seven steps, of which one was half lost, and the copy
