"""Values that a closure asks for while it runs: those that cannot be there before it has returned are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from simdist.coordinator.bounded import BoundedStaleness
from simdist.errors import FailedPreconditionError


def coordinator_of(mode: Any, workers: int = 2, **options: Any) -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": 1}), mode=mode, **options))


def fetching(values: list[sd.RemoteValue], number: int) -> Callable[[], Any]:
    return lambda: values[number].fetch() + 1


@pytest.mark.parametrize(("mode", "options"), [("async", {}), ("sync", {}), ("bounded", {"staleness": 1})])
def test_a_closure_does_not_wait_for_itself(mode: str, options: dict[str, int]) -> None:
    coordinator = coordinator_of(mode, **options)
    values: list[sd.RemoteValue] = []
    values.append(coordinator.schedule(fetching(values, 0)))
    with pytest.raises(FailedPreconditionError, match="The value of closure 0 was asked for in closure 0 on worker:0: it is there when"):
        coordinator.join()
    values.append(coordinator.schedule(lambda: 1))
    coordinator.join()
    assert values[1].fetch() == 1


@pytest.mark.parametrize("is_later", [False, True])
def test_a_closure_does_not_wait_for_one_of_its_round_or_of_a_later_one(is_later: bool) -> None:
    coordinator = coordinator_of("sync")
    values: list[sd.RemoteValue] = []
    functions = [fetching(values, 2), lambda: 1, lambda: 2] if is_later else [lambda: 1, fetching(values, 0)]
    values += map(coordinator.schedule, functions)
    asked, by = (2, 0) if is_later else (0, 1)
    with pytest.raises(FailedPreconditionError, match=f"closure {asked} was asked for in closure {by} on worker:{by}, but .* round"):
        coordinator.join()
    assert coordinator.pending == 0 and coordinator.strategy.cluster.now < 0.001


def test_a_closure_may_wait_for_one_of_a_round_before() -> None:
    coordinator = coordinator_of("sync")
    values: list[sd.RemoteValue] = []
    values += map(coordinator.schedule, [lambda: 1, lambda: 10, fetching(values, 0), fetching(values, 1)])
    coordinator.join()
    assert [value.fetch() for value in values] == [1, 10, 2, 11]


def test_a_closure_may_wait_for_a_slower_worker_in_a_round_before() -> None:
    coordinator = coordinator_of("bounded", staleness=1)
    values: list[sd.RemoteValue] = []

    def slow() -> int:
        sd.sleep(1.0)
        return 1

    values += map(coordinator.schedule, [slow, lambda: 10, fetching(values, 0)])
    coordinator.join()
    assert [value.fetch() for value in values] == [1, 10, 2]


def test_with_backups_no_worker_holds_up_a_round() -> None:
    policies = [BoundedStaleness({"worker:0": 0, "worker:1": 1}, 0, backups) for backups in (0, 1)]
    for policy in policies:
        for worker in policy.ranks:
            policy.joined(worker)
            policy.began(worker)
        policy.completed("worker:0", ticket=0, closure=5)
        policy.ended("worker:0", True)
        assert (policy.round_of(5, None), policy.round_of(6, "worker:1"), policy.round_of(4, None)) == (0, 0, None)
    assert [policy.holds_up("worker:1", 0) for policy in policies] == [True, False]
