"""Virtual seconds pass for whoever sleeps."""

from __future__ import annotations

import math

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError


def test_a_notebook_sleeps_on_the_clock_that_it_means() -> None:
    first, second = sd.Cluster({"worker": 1}), sd.Cluster({"worker": 1})
    sd.sleep(1.0)
    assert (first.now, second.now) == (0.0, 1.0)
    sd.sleep(2.0, first)
    assert (first.now, second.now) == (2.0, 1.0)
    with sd.OneDeviceStrategy("cpu:0").scope() as strategy:
        sd.sleep(4.0)
    assert (first.now, second.now, strategy.cluster.now) == (2.0, 1.0, 4.0)
    with first:
        sd.Cluster({"worker": 1})
        sd.sleep(8.0)
    assert (first.now, second.now) == (10.0, 1.0)


def test_mains_and_closures_sleep_side_by_side() -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 1})
    run = cluster.launch(lambda: sd.sleep(2.0) or cluster.now)
    run.join()
    assert run.results == dict.fromkeys(["worker:0", "worker:1", "worker:2"], 2.0)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    for _ in range(3):
        coordinator.schedule(sd.sleep, args=(1.0,))
    coordinator.join()
    assert cluster.now == pytest.approx(3.0, abs=1e-3)


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_sleep_that_is_none_is_an_error_of_whoever_sleeps(seconds: float) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    with pytest.raises(InvalidArgumentError):
        sd.sleep(seconds)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    coordinator.schedule(sd.sleep, args=(seconds,))
    with pytest.raises(InvalidArgumentError):
        coordinator.join()
    run = cluster.launch(sd.sleep, args=(seconds,))
    with pytest.raises(InvalidArgumentError):
        run.join()


def test_a_traced_step_cannot_sleep() -> None:
    strategy = sd.OneDeviceStrategy("cpu:0")
    with pytest.raises(FailedPreconditionError, match="seconds="):
        sd.function(lambda: strategy.run(lambda: sd.sleep(1.0)))()


def test_what_is_no_cluster_is_refused() -> None:
    with pytest.raises(FailedPreconditionError, match="needs a cluster"):
        sd.sleep(1.0, "cluster")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seconds", ["1", True, None])
def test_what_is_no_number_of_seconds_is_refused(seconds: object) -> None:
    with pytest.raises(TypeError, match=r"seconds is .*expected a number"):
        sd.sleep(seconds, sd.Cluster({"worker": 1}))  # pyright: ignore[reportArgumentType]
