"""The counter "queue": the closures that wait in all queues of a chief, whoever wrote last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.coordinator.queue_length import QueueLength
from simdist.errors import UnavailableError
from simdist_widgets.lab_state import moment_of


def coordinators(cluster: sd.Cluster, count: int) -> list[sd.ClusterCoordinator]:
    return [sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster)) for _ in range(count)]


def waiting(chiefs: list[sd.ClusterCoordinator]) -> int:
    return sum(len(chief.queue.queue) for chief in chiefs)


def test_the_queue_that_is_shown_is_that_of_all_coordinators_at_every_moment() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    chiefs = coordinators(cluster, 3)
    closures = (7, 0, 3)
    for chief, count in zip(chiefs, closures, strict=True):
        for _ in range(count):
            chief.schedule(lambda: sd.sleep(1.0))
    assert cluster.trace.counters.last("chief:0", "queue") == waiting(chiefs) == 6  # each coordinator gives a closure to each worker
    times_s, true = [0.0], [float(waiting(chiefs))]
    while any(chief.pending for chief in chiefs):
        sd.sleep(0.01, cluster)
        assert moment_of(cluster)["queue"]["waiting"] == waiting(chiefs)
        times_s.append(cluster.now)
        true.append(waiting(chiefs))
    shown = cluster.trace.summary()["queues"]["chief:0"]
    assert shown["max"] == 6
    assert shown["mean"] * cluster.trace.end_s() == pytest.approx(np.sum(np.diff(times_s) * true[:-1]), rel=0.02)


def test_a_queue_that_died_with_its_chief_is_not_counted() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    before = QueueLength(cluster.engine)
    before.changed(5)
    cluster.faults.crash("chief:0", at=0.5, restart_after=0.5)
    with pytest.raises(UnavailableError):
        sd.sleep(1.0, cluster)
    sd.sleep(1.0, cluster)
    QueueLength(cluster.engine).changed(2)
    assert cluster.trace.counters.last("chief:0", "queue") == 2


def test_clusters_do_not_count_for_each_other() -> None:
    first, second = (sd.Cluster({"worker": 1, "ps": 1}) for _ in range(2))
    QueueLength(first.engine).changed(5)
    QueueLength(second.engine).changed(1)
    last: Any = second.trace.counters.last("chief:0", "queue")
    assert last == 1
