"""Plain functions change variables at once: not where servers must know which closure a change belongs to."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd

ROUNDS = [
    ({"exactly_once": True}, "exactly_once=True"),
    ({"mode": "sync"}, "mode='sync'"),
    ({"mode": "bounded", "staleness": 1}, "mode='bounded'"),
]


def made(**options: Any) -> tuple[sd.ClusterCoordinator, sd.Variable]:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), **options)
    with strategy.scope():
        return sd.ClusterCoordinator(strategy), sd.Variable(0.0, name="v")


@pytest.mark.parametrize(("options", "named"), ROUNDS, ids=[named for _, named in ROUNDS])
def test_a_plain_function_that_changes_a_variable_is_refused(options: dict[str, Any], named: str) -> None:
    coordinator, v = made(**options)
    coordinator.schedule(lambda: v.assign_add(1.0))
    wanted = f"v was about to be changed by a plain function .* under {named}: .*@sd.function"
    with pytest.raises(sd.errors.FailedPreconditionError, match=wanted):
        coordinator.join()
    assert float(v) == 0.0
    v.assign(3.0)  # the program of the coordinator itself may
    coordinator.schedule(sd.function(lambda: v.assign_add(1.0)))
    assert coordinator.schedule(lambda: float(v)).fetch() in (3.0, 4.0)
    coordinator.join()
    assert float(v) == 4.0


@pytest.mark.parametrize("options", [{}, {"recovery": "replica"}], ids=str)
def test_a_plain_function_changes_a_variable_where_updates_count_when_they_arrive(options: dict[str, Any]) -> None:
    coordinator, v = made(**options)
    for _ in range(3):
        coordinator.schedule(lambda: v.assign_add(1.0))
    coordinator.join()
    assert float(v) == 3.0


def test_the_copy_of_a_worker_may_be_changed_under_every_option() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), exactly_once=True)
    with strategy.scope():
        own = sd.Variable(0.0, per_worker_variable=True)
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(lambda: own.assign_add(1.0))
    coordinator.join()
    assert [float(value) for value in own.read_all()] == [1.0]
