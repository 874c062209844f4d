"""What calls have left that ended early: their queued closures are cancelled, and those of others go on, with their errors."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd


def coordinator_of(cluster: sd.Cluster, mode: Any = "async") -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, mode=mode))


def left_by(coordinator: sd.ClusterCoordinator, *functions: Any) -> list[Any]:
    """The results of closures of a call."""
    return [coordinator.schedule_steps(function, (), {}, 1) for function in functions]


def nothing() -> None:
    return


def fail() -> None:
    raise ValueError("of a closure")


def fail_for_the_user() -> None:
    raise ValueError("of the user")


def test_queued_closures_are_cancelled_and_those_of_others_run() -> None:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        coordinator = coordinator_of(cluster)
        results = left_by(coordinator, *[lambda number=number: number for number in range(6)])
        assert coordinator.leftovers.leave([results[number] for number in (0, 2, 3)]) and coordinator.pending == 0
        assert [results[number].value() for number in (0, 1, 4, 5)] == [0, 1, 4, 5], "a worker had begun the first two"
        with pytest.raises(sd.errors.CancelledError, match="Closure 3 was cancelled, because the call that had scheduled it ended early"):
            results[3].value()
        assert coordinator.schedule(lambda: 7).fetch() == 7


def test_an_error_of_what_is_left_is_not_raised_and_nothing_is_left() -> None:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        coordinator = coordinator_of(cluster)
        assert not coordinator.leftovers.leave(left_by(coordinator, fail)) and coordinator.pending == 0
        assert coordinator.leftovers.end() and coordinator.done()


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("fails_before", [True, False])
def test_an_error_of_a_closure_of_the_user_is_raised_once_by_the_next_join(mode: str, fails_before: bool) -> None:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        coordinator = coordinator_of(cluster, mode)
        value = coordinator.schedule(fail_for_the_user)
        if fails_before:
            sd.sleep(1.0)
        assert coordinator.leftovers.leave(left_by(coordinator, nothing, nothing)) and coordinator.pending == 0
        with pytest.raises(ValueError, match="of the user"):
            coordinator.join()
        coordinator.join()
        with pytest.raises(ValueError, match="of the user"):
            value.fetch()


def test_an_error_of_what_is_left_is_raised_where_closures_of_the_user_were_cancelled_for_it() -> None:
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        coordinator = coordinator_of(cluster)
        left, value = left_by(coordinator, fail), coordinator.schedule(nothing)
        assert coordinator.leftovers.leave(left) and value.state == "failed"
        with pytest.raises(ValueError, match="of a closure"):
            coordinator.join()


def test_what_a_call_was_just_scheduling_is_waited_for() -> None:
    """Ctrl-C between a closure and the note that it is there."""
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        coordinator = coordinator_of(cluster)
        (result,) = left_by(coordinator, nothing)
        assert coordinator.leftovers.leave([]) and coordinator.pending == 0 and result.error is None


def test_a_cluster_that_is_closed_has_nothing_to_wait_for() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator = coordinator_of(cluster)
    results = left_by(coordinator, nothing, nothing, nothing)
    cluster.close()
    assert not coordinator.leftovers.leave(results[2:]) and coordinator.pending == 3
