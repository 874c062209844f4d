"""What calls have left that ended early: their queued closures are cancelled, and those of others go on."""

from __future__ import annotations

import pytest

import simdist as sd


def test_queued_closures_are_cancelled_and_those_of_others_run() -> None:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        values = [coordinator.schedule(lambda number=number: number) for number in range(6)]
        assert coordinator.leftovers.leave([0, 2, 3]) and coordinator.pending == 0
        assert [values[number].fetch() for number in (0, 1, 4, 5)] == [0, 1, 4, 5], "a worker had begun the first two"
        with pytest.raises(sd.errors.CancelledError, match="Closure 3 was cancelled, because the call that had scheduled it ended early"):
            values[3].fetch()
        assert coordinator.schedule(lambda: 7).fetch() == 7


def test_an_error_of_what_is_left_is_not_raised_and_nothing_is_left() -> None:
    def fail() -> None:
        raise ValueError("of a closure")

    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        coordinator.schedule(fail)
        assert not coordinator.leftovers.leave([0]) and coordinator.pending == 0
        assert coordinator.leftovers.end()


def test_a_cluster_that_is_closed_has_nothing_to_wait_for() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    for _ in range(3):
        coordinator.schedule(lambda: None)
    cluster.close()
    assert not coordinator.leftovers.leave([2]) and coordinator.pending == 3
