"""How long a collective waits where replicas do not come or bytes are lost, and what it keeps until then."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.runtime.simulated.collective_timeouts import COLLECTIVE_TIMEOUT_S, CollectiveTimeouts, HeldUpError
from simdist.simulation.kernel import Clock


class Waiting:
    """A collective of two replicas, of which one has not come."""

    collective: Any = "all_reduce loss"
    transfers: Any = None

    def __init__(self) -> None:
        self.ranks: list[int] = []
        self.errors: list[BaseException] = []

    def missing(self) -> list[str]:
        return ["worker:1"]

    def down(self) -> list[str]:
        return []

    def start_again_s(self) -> float:
        return 0.0

    def not_again(self) -> list[str]:
        return []

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)


def test_a_replica_that_does_not_come_is_named_when_the_time_out_is_over() -> None:
    clock, waiting, begun = Clock(), Waiting(), Waiting()
    begun.ranks = [0, 1]
    kept = [CollectiveTimeouts(one, clock, 2.0) for one in (waiting, begun)]
    clock.sleep(3.0)
    assert [str(error) for error in waiting.errors] == [
        "all_reduce loss was given up after 2 s: worker:1 did not come. Look at what it does instead, or raise timeout_seconds."
    ]
    assert begun.errors == [] and [one.gives_up_s for one in kept] == [0.0, 0.0]


def test_a_main_whose_partner_is_down_for_longer_than_the_time_out_starts_again_until_it_is_back() -> None:
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:1", at=0.5, restart_after=7.0)
    told: list[str] = []

    def main() -> float:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=2.0))
        sd.sleep(1.0)
        try:
            total = strategy.reduce("sum", strategy.run(lambda: np.float32(1.0)), axis=None)
        except sd.errors.DeadlineExceededError as error:
            told.append(str(error))
            raise
        return float(total)

    run = cluster.launch(main, restart="always")
    run.join()
    assert run.results == {"worker:0": 2.0, "worker:1": 2.0}
    assert told and all("worker:1 did not come, and worker:1 is down" in text for text in told), told


def restarts_after(crashes: list[tuple[str, float]], busy_s: float) -> tuple[dict[str, float], dict[str, int]]:
    """The results and restarts of two mains with a time-out of half a second, of which one computes for so long in its first step."""
    cluster = sd.Cluster({"worker": 2})
    for task, at in crashes:
        cluster.faults.crash(task, at=at, restart_after=0.01)

    def main() -> float:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=0.5))
        strategy.reduce("sum", np.float32(1.0), axis=None)
        is_first = cluster.now < 1.0
        sd.sleep(busy_s if is_first and strategy.worker_index else 0.1)
        return float(strategy.reduce("sum", np.float32(strategy.worker_index + 1.0), axis=None))

    run = cluster.launch(main, restart="always")
    run.join()
    return run.results, run.restarts


@pytest.mark.parametrize("busy_s", [0.1, 0.7, 3.0])
def test_a_main_that_starts_again_at_once_waits_for_those_that_do_so_later(busy_s: float) -> None:
    """The others wait a second and more before they start again, and one that is busy has yet to hear of the crash."""
    results, restarts = restarts_after([("worker:0", 0.05)], busy_s)
    assert results == {"worker:0": 3.0, "worker:1": 3.0}
    assert restarts["worker:1"] == 1 and restarts["worker:0"] <= 3


def test_a_main_that_does_not_come_though_it_has_started_again_is_no_fault() -> None:
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:0", at=0.05, restart_after=0.01)

    def main() -> float:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=0.5))
        total = float(strategy.reduce("sum", np.float32(1.0), axis=None))
        sd.sleep(50.0 if strategy.worker_index else 0.1)
        return total + float(strategy.reduce("sum", np.float32(1.0), axis=None))

    run = cluster.launch(main, restart="always")
    with pytest.raises(sd.errors.DeadlineExceededError, match=r"worker:1 did not come\. Look at what it does"):
        run.join()
    assert run.restarts["worker:0"] <= 7


def test_a_main_that_has_just_started_again_has_the_whole_time_out_for_what_it_does_before_it_comes() -> None:
    """One starts again at once; the other hears of the crash after 0.9 s, starts again after one more, and comes 2.8 s after the begin."""
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:1", at=0.05, restart_after=0.01)

    def main() -> float:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=2.0))
        sd.sleep(0.0 if strategy.worker_index and cluster.now else 0.9)
        return float(strategy.reduce("sum", np.float32(1.0), axis=None))

    run = cluster.launch(main, restart="always")
    run.join()
    assert run.restarts == {"worker:0": 1, "worker:1": 1} and cluster.now == pytest.approx(2.8, abs=0.01)


@pytest.mark.parametrize("in_a_second_run", [False, True])
def test_a_restart_that_is_over_excuses_no_main_that_has_begun_anew_since_with_the_others(in_a_second_run: bool) -> None:
    """The main that crashed starts again before that of the other worker, and keeps it waiting later, in a strategy that is new."""
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:0", at=0.05, restart_after=0.01)

    def first() -> float:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=0.5))
        sd.sleep(0.1)
        return float(strategy.reduce("sum", np.float32(1.0), axis=None))

    def late() -> float:
        sd.sleep(0.0 if sd.TFConfigClusterResolver().task_id else 50.0)
        return first()

    if in_a_second_run:
        cluster.launch(first, restart="always").join()
    run = cluster.launch(late if in_a_second_run else lambda: first() + late(), restart="always")
    with pytest.raises(sd.errors.DeadlineExceededError, match=r"worker:0 did not come\. Look at what it does"):
        run.join()
    assert run.restarts == dict.fromkeys(run.restarts, 0 if in_a_second_run else 1)


def test_without_a_time_out_it_waits_only_where_a_task_may_be_silent() -> None:
    clock, waiting = Clock(), Waiting()
    timeouts = CollectiveTimeouts(waiting, clock, None)
    timeouts.expect_silence(waiting)
    timeouts.expect_silence(waiting)  # it waits already
    assert timeouts.gives_up_s == COLLECTIVE_TIMEOUT_S
    clock.sleep(COLLECTIVE_TIMEOUT_S)
    (error,) = waiting.errors
    assert isinstance(error, sd.errors.TimedOutError) and "after 30 s: worker:1 did not come, and nobody said why" in str(error)


def test_where_a_task_may_be_silent_the_error_of_its_own_time_out_has_that_as_its_cause() -> None:
    clock, waiting, calm = Clock(), Waiting(), Waiting()
    CollectiveTimeouts(waiting, clock, 2.0).expect_silence(waiting)
    kept = CollectiveTimeouts(calm, clock, 2.0)
    clock.sleep(2.0)
    (error, *_), (other,) = waiting.errors, calm.errors
    assert isinstance(error, sd.errors.DeadlineExceededError) and isinstance(error.__cause__, HeldUpError)
    assert str(error) == str(other) and other.__cause__ is None and not kept.gives_up_s


def test_a_collective_that_is_over_is_not_kept_until_its_time_out() -> None:
    clock, waiting = Clock(), Waiting()
    timeouts, gone = CollectiveTimeouts(waiting, clock, 100.0), weakref.ref(waiting)
    timeouts.end()
    del waiting
    gc.collect()
    assert gone() is None


def given_up_s(plan: Callable[[sd.Cluster], object], timeout_s: float | None, megabytes: int) -> float:
    """When mains of three workers, on links of 1 MB/s, are told that a collective was given up."""
    cluster = sd.Cluster({"worker": 3}, network=sd.hardware.Network(bandwidth=1e6, latency=0.0))
    told_s: list[float] = []

    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy(
            communication_options=sd.CommunicationOptions(timeout_seconds=timeout_s, implementation="RING")
        )
        try:
            strategy.run(
                sd.function(lambda x: sd.get_replica_context().all_reduce("sum", x)), args=(np.ones(250_000 * megabytes, "float32"),)
            )
        except sd.errors.TimedOutError:
            told_s.append(cluster.now)
            raise

    plan(cluster)
    run = cluster.launch(main)
    with pytest.raises(sd.errors.TimedOutError, match=f"given up after {timeout_s or 30:g} s.* {'raise' if timeout_s else 'set'} timeout_"):
        run.join()
    return min(told_s)


def cut(at: float) -> Callable[[sd.Cluster], object]:
    return lambda cluster: cluster.faults.partition("worker:0", ["worker:1", "worker:2"], at=at, until=at + 0.5)


def pause(at: float) -> Callable[[sd.Cluster], object]:
    return lambda cluster: cluster.faults.pause("worker:0", at=at, until=500.0)


@pytest.mark.parametrize("silence", [cut, pause])
@pytest.mark.parametrize("timeout_s", [None, 2.0, 100.0])
def test_a_collective_that_cannot_end_is_given_up_after_the_time_out_that_was_asked_for(
    silence: Callable[[float], Any], timeout_s: float | None
) -> None:
    assert given_up_s(silence(0.5), timeout_s, megabytes=3) == pytest.approx(timeout_s or 30.0)


@pytest.mark.parametrize("silence", [cut, pause])
def test_a_collective_that_a_silence_befalls_after_its_time_out_gets_one_more(silence: Callable[[float], Any]) -> None:
    # Its bytes travel for 12 s, and nothing was missing after 2 s.
    assert 5.0 + 2.0 <= given_up_s(silence(5.0), 2.0, megabytes=9) < 12.0 + 2.0
