"""What `exactly_once` promises: each update counts once. What it does not: a closure that is run again reads what it has changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import simdist as sd
from simdist.runtime.simulated import remembered

CLOSURES, MOMENTS = 3, 40


class Outcome(NamedTuple):
    """What closures have left that copy a counter, and add one to it: the counter, the copy, the sum of what they read, and each result."""

    counter: float
    copy: float
    summed: float
    results: list[float]
    duration_s: float


def counted(crash_s: float | None = None, **options: Any) -> Outcome:
    """Run closures on one worker, which may die at a moment."""
    cluster = sd.Cluster({"worker": 1, "ps": 1}, seed=1)
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        counter, copy = sd.Variable(0.0, name="counter"), sd.Variable(-1.0, name="copy")
        summed = sd.Variable(0.0, name="summed", synchronization="on_read", aggregation="sum")

    @sd.function
    def step() -> Any:
        before = counter.value
        counter.assign_add(1.0)
        copy.assign(before)
        summed.assign_add(before)
        return before

    if crash_s is not None:
        cluster.faults.crash("worker:0", at=crash_s, restart_after=1e-4)
    coordinator = sd.ClusterCoordinator(strategy)
    results = [coordinator.schedule(step) for _ in range(CLOSURES)]
    coordinator.join()
    values = [float(result.fetch()) for result in results]
    return Outcome(float(counter), float(copy), float(summed), values, cluster.now)


def with_crashes(**options: Any) -> list[Outcome]:
    """Outcomes with a crash at moments that are spread over the whole run."""
    duration_s = counted(**options).duration_s
    return [counted(duration_s * moment / MOMENTS, **options) for moment in range(1, MOMENTS)]


def test_each_update_counts_once_whenever_the_worker_dies() -> None:
    assert {outcome.counter for outcome in with_crashes(exactly_once=True)} == {float(CLOSURES)}
    assert {outcome.counter for outcome in with_crashes()} == {float(CLOSURES), CLOSURES + 1.0}


def test_a_closure_that_is_run_again_reads_what_its_first_run_has_changed() -> None:
    outcomes = with_crashes(exactly_once=True)
    read = [0.0, 1.0, 2.0]
    for outcome in outcomes:
        again = [number for number, (value, expected) in enumerate(zip(outcome.results, read, strict=True)) if value != expected]
        assert len(again) <= 1 and all(outcome.results[number] == number + 1.0 for number in again)
        assert outcome.summed == sum(outcome.results)  # the run that counts is the one whose metrics count
        assert outcome.copy in (outcome.results[-1], read[-1])  # sent by the run that returned, or by the first one
    kinds = {(outcome.results == read, outcome.copy == read[-1]) for outcome in outcomes}
    assert kinds == {(True, True), (False, True), (False, False)}


@pytest.mark.parametrize("options", [{"mode": "sync"}, {"mode": "bounded", "staleness": 0}], ids=str)
@pytest.mark.sample(2)
def test_in_rounds_an_attempt_that_does_not_count_leaves_no_mark(options: dict[str, Any]) -> None:
    undisturbed = counted(**options)
    assert undisturbed.results == [0.0, 1.0, 2.0]
    assert {tuple(map(str, outcome[:-1])) for outcome in with_crashes(**options)} == {tuple(map(str, undisturbed[:-1]))}


def test_what_a_silent_worker_sends_for_a_closure_of_long_ago_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MANY", 16)
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster, exactly_once=True)
    with strategy.scope():
        counter = sd.Variable(0.0, name="counter")

    @sd.function(seconds=0.1)
    def step() -> None:
        counter.assign_add(1.0 + 0 * counter.value)

    cluster.faults.pause("worker:0", at=1.03, until=14.0)
    cluster.faults.partition("chief", "ps:0", at=5.0, until=8.0, one_way=True)  # so the server does not hear that its closure is given away
    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(150):
        coordinator.schedule(step)
    coordinator.join()
    sd.sleep(5.0)
    assert len(cluster.trace.instants.where(category="retry")) == 1
    assert counter.numpy() == 150.0
