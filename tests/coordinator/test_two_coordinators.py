"""Two coordinators on one cluster: what servers know of one's closures and workers has nothing to do with the other's."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd


def counting(cluster: sd.Cluster, seconds: float | None = None, **options: Any) -> tuple[sd.ClusterCoordinator, Any, sd.Variable]:
    """A coordinator, a closure that adds one, and the sum."""
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        count = sd.Variable(0.0)
    return sd.ClusterCoordinator(strategy), sd.function(seconds=seconds)(lambda: count.assign_add(1.0)), count


def test_each_closure_counts_once_for_every_coordinator() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    for closures in (5, 8, 2200, 2200):  # so many that servers forget those which are not run again
        coordinator, step, count = counting(cluster, exactly_once=True)
        for _ in range(closures):
            coordinator.schedule(step)
        coordinator.join()
        assert float(count.numpy()) == closures


@pytest.mark.parametrize("first", [0, 1])
def test_the_work_of_one_is_not_refused_because_the_other_has_given_its_own_away(first: int) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    both = [counting(cluster, seconds=1.0), counting(cluster, seconds=1.0)]
    (busy, step_busy, count_busy), (other, step_other, count_other) = both[first], both[1 - first]
    for _ in range(40):
        other.schedule(step_other)
    other.join()
    cluster.faults.pause("worker:0", at=25.0, until=80.0)
    for _ in range(100):
        busy.schedule(step_busy)
    busy.join()
    assert (float(count_busy.numpy()), float(count_other.numpy())) == (100.0, 40.0)


@pytest.mark.parametrize("exactly_once", [True, False])
def test_an_update_that_is_in_the_snapshot_of_a_server_is_not_applied_again(exactly_once: bool) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    coordinator, step, count = counting(cluster, recovery="checkpoint", exactly_once=exactly_once)
    # The reply or the confirmation is lost, the server writes a snapshot at 10 s and dies at 20 s; then the update comes once more.
    lost = ("worker:0", "chief:0", "closure_reply") if exactly_once else ("ps:0", "worker:0", "update_reply")
    cluster.faults.drop(lost[0], lost[1], kind=lost[2], at=0.0, until=5.0)
    cluster.faults.crash("ps:0", at=20.0)
    coordinator.schedule(step)
    coordinator.join()
    assert float(count.numpy()) == 1.0


def test_a_step_of_the_variables_of_another_strategy_is_refused_also_where_workers_have_run_it_for_that_one() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    (owner, step, count), (other, _, _) = counting(cluster), counting(cluster)
    for _ in range(6):
        owner.schedule(step)
    owner.join()
    other.schedule(step)
    with pytest.raises(sd.errors.FailedPreconditionError, match="Mixing different strategies"):
        other.join()
    assert float(count.numpy()) == 6.0


def test_the_same_step_runs_on_as_many_replicas_as_each_strategy_says() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    one, two = [sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, devices_per_worker=count)) for count in (1, 2)]
    step = sd.function(lambda: sd.get_strategy().num_replicas_in_sync)
    assert [coordinator.schedule(step).fetch() for coordinator in (one, two, one, two)] == [1, 2, 1, 2]
