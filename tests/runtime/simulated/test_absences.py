"""The error of a wait that cannot end names the tasks that are not there."""

from __future__ import annotations

import re
from typing import Any

import pytest

import simdist as sd
from simdist.errors import DeadlineExceededError

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "crash": ({}, r"worker:0 has been down since 0\.5"),
    "lose_host": ({}, r"worker:0 was lost with its machine at 0\.5"),
    "pause": ({}, r"worker:0 has been paused since 0\.5"),
    "partition": ({"b": "chief:0"}, "worker:0 is up, but the chief does not hear of it"),
}


def waiting(kind: str, workers: int, remote: bool = False) -> str:
    cluster = sd.Cluster({"worker": workers, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster)
    coordinator = sd.ClusterCoordinator(strategy)
    options, _ = FAULTS[kind]
    for worker in strategy.workers:
        getattr(cluster.faults, kind)(worker, **options, at=0.5)
    results = [coordinator.schedule(sd.sleep, (1.0,)) for _ in range(workers + 3)]
    with pytest.raises(DeadlineExceededError) as caught:
        if remote:
            results[-1].fetch()
        else:
            coordinator.join()
    return str(caught.value)


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_wait_for_closures_names_the_workers_that_are_gone(kind: str, remote: bool) -> None:
    message = waiting(kind, 2, remote)
    expected = FAULTS[kind][1]
    assert re.search(expected, message) and re.search(expected.replace("worker:0", "worker:1"), message)
    assert "ps:0 " not in message.partition("Elsewhere")[0]


def test_join_says_what_is_left_and_what_each_worker_does() -> None:
    assert "Waiting for 5 closures (join: 5 closures are queued; worker:0 is away, worker:1 is away) at" in waiting("crash", 2)


def test_of_many_tasks_the_first_ones_are_named() -> None:
    message = waiting("crash", 12)
    assert "worker:7 has been down" in message and "worker:8" not in message
    assert "4 others are not there either" in message and "and 4 more workers" in message


def test_a_task_that_has_left_is_not_missed() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    coordinator.remove_worker("worker:0")
    cluster.faults.crash("worker:1", at=0.5)
    coordinator.schedule(sd.sleep, (1.0,))
    with pytest.raises(DeadlineExceededError, match="worker:1 has been down") as caught:
        coordinator.join()
    assert "worker:0" not in str(caught.value)
