"""Restores take the time of the disk on which the file lies, and of the network to the tasks that get the values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import UnavailableError

BANDWIDTH, LATENCY_S = 1e5, 0.01
SLOW, FAST = 1e4, 1e6
SIZE_BYTES = 40_000


def cluster_of(tasks: dict[str, int]) -> sd.Cluster:
    """The chief's disk is faster than all others."""
    slow, fast = (sd.hardware.DiskModel(read_bandwidth=rate, write_bandwidth=FAST, latency=0.0) for rate in (SLOW, FAST))
    disks = {"chief": fast, "worker": slow, "ps": slow}
    return sd.Cluster(tasks, network=sd.hardware.Network(bandwidth=BANDWIDTH, latency=LATENCY_S), disks=disks)


def copied_s(size_bytes: int) -> float:
    return LATENCY_S + size_bytes / BANDWIDTH


@pytest.mark.parametrize("task", [None, "worker:0", "ps:0"])
def test_a_checkpoint_is_read_by_the_disk_on_which_it_lies(task: str | None) -> None:
    with cluster_of({"worker": 1, "ps": 1}) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            variable: Any = sd.Variable(np.ones(SIZE_BYTES // 4, np.float32))
        checkpoint = sd.Checkpoint(v=variable)
        path = Path(checkpoint.save(cluster.directory("saved", task) + "/ckpt"))
        size_bytes = SIZE_BYTES + 4  # with the number of saves
        began_s = cluster.now
        checkpoint.restore(path)
        seconds = [size_bytes / (FAST if task is None else SLOW)]
        seconds += [] if task is None else [copied_s(size_bytes)]
        seconds += [copied_s(SIZE_BYTES)]
        assert cluster.now - began_s == pytest.approx(sum(seconds))
        spans = [span for span in cluster.trace.spans.where(category="checkpoint") if span.start_s >= began_s]
        assert [span.lane for span in spans] == [task or "chief:0", *([] if task is None else ["chief:0"]), "ps:0"]
        assert [span.name for span in spans] == ["read ckpt-1", *["receive ckpt-1"] * (len(spans) - 1)]
        np.testing.assert_allclose([span.end_s - span.start_s for span in spans], seconds)
        segments = cluster.trace.critical_path().segments
        assert [part.span for part in segments[-len(spans) :]] == spans, "the program has waited for each of them"


def test_a_checkpoint_on_the_disk_of_a_task_that_is_down_cannot_be_read() -> None:
    with cluster_of({"worker": 2, "ps": 1}) as cluster:
        with sd.ParameterServerStrategy(cluster).scope():
            variable: Any = sd.Variable(np.ones(8, np.float32))
        checkpoint = sd.Checkpoint(v=variable)
        path = checkpoint.save(cluster.directory("saved", "worker:1") + "/ckpt")
        variable.assign(np.zeros(8, np.float32))
        cluster.faults.crash("worker:1", at=cluster.now + 0.1, restart_after=5.0)
        sd.sleep(1.0)
        with pytest.raises(UnavailableError, match="worker:1 is down, and so is its disk"):
            checkpoint.restore(path)
        assert not variable.numpy().any()
        sd.sleep(10.0)
        checkpoint.restore(path)
        assert variable.numpy().all()


def test_weights_that_lie_on_another_disk_travel_to_the_program_first() -> None:
    times: dict[str | None, float] = {}
    for task in (None, "worker:0"):
        with cluster_of({"worker": 1, "ps": 1}) as cluster:
            with sd.ParameterServerStrategy(cluster).scope():
                model = keras.Sequential([keras.Input((100,)), keras.layers.Dense(100, use_bias=False)])
            path = Path(cluster.directory("saved", task), "m.weights.h5")
            model.save_weights(path)
            began_s = cluster.now
            model.load_weights(path)
            times[task] = cluster.now - began_s
    assert times[None] == pytest.approx(SIZE_BYTES / FAST + copied_s(SIZE_BYTES))
    assert times["worker:0"] == pytest.approx(SIZE_BYTES / SLOW + 2 * copied_s(SIZE_BYTES))
