"""What may be planned, when it fires, and what several faults on one task are together."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


def slowness(cluster: sd.Cluster, *times_s: float) -> list[float]:
    found: list[float] = []
    for time_s in times_s:
        sd.sleep(time_s - cluster.now, cluster)
        found.append(cluster.world.tasks["worker:0"].slowness)
    return found


def training(cluster: sd.Cluster) -> tuple[sd.ClusterCoordinator, Any, sd.Variable]:
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable(np.zeros(3, np.float32))
    return sd.ClusterCoordinator(strategy), sd.function(lambda: variable.assign_add(np.ones(3, np.float32))), variable


def test_factors_of_overlapping_faults_multiply_and_each_ends_by_itself() -> None:
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.slow("worker:0", 2.0, at=0.1, until=0.5)
    cluster.faults.slow("worker:0", 3.0, at=0.2, until=0.9)
    assert slowness(cluster, 0.05, 0.15, 0.3, 0.6, 1.0) == [1.0, 2.0, 6.0, 3.0, 1.0]


def test_a_task_slowed_twice_computes_as_slowly_as_the_product() -> None:
    def computed_s(*factors: float) -> float:
        cluster = sd.Cluster({"worker": 1, "ps": 1}, hardware=sd.hardware.Device(launch_overhead=1.0))
        for factor in factors:
            cluster.faults.slow("worker:0", factor, at=0.0)
        sd.sleep(1e-9, cluster)
        coordinator, _, variable = training(cluster)
        coordinator.schedule(sd.function(lambda: (variable.value * 2.0).sum()))
        coordinator.join()
        (span,) = cluster.trace.spans.where(category="compute")
        return span.duration_s

    assert computed_s(2.0, 3.0) == pytest.approx(6.0 * computed_s(), rel=1e-12)


@pytest.mark.parametrize(
    ("crashes", "up_at_s", "down_at_s"),
    [
        ([{"at": 0.1}, {"at": 0.2, "restart_after": 0.1}], [0.05, 0.35], [0.15, 0.29]),
        ([{"at": 0.1, "restart_after": 0.3}, {"at": 0.2}], [0.05], [0.15, 0.5]),
        ([{"at": 0.1, "restart_after": 0.3}, {"at": 0.2, "restart_after": 0.5}], [0.75], [0.15, 0.45, 0.65]),
        ([{"at": 0.5, "restart_after": 0.5}, {"at": 1.0}], [0.4], [0.6, 1.1]),
        ([{"at": 0.5, "restart_after": 0.5}, {"at": 1.0, "restart_after": 0.5}], [1.6], [0.6, 1.1]),
    ],
)
def test_what_the_last_crash_says_of_the_restart_holds(
    crashes: list[dict[str, float]], up_at_s: list[float], down_at_s: list[float]
) -> None:
    cluster = sd.Cluster({"worker": 1})
    for crash in crashes:
        cluster.faults.crash("worker:0", **crash)
    expected = {**dict.fromkeys(up_at_s, True), **dict.fromkeys(down_at_s, False)}
    found = {}
    for time_s in sorted(expected):
        sd.sleep(time_s - cluster.now, cluster)
        found[time_s] = cluster.world.tasks["worker:0"].alive
    assert found == expected
    assert len(cluster.trace.instants.where(category="crash")) == len(crashes)
    cluster.close()


@pytest.mark.parametrize("at", [math.nan, math.inf, -1.0, True, "1"])
def test_a_moment_that_is_none_is_refused(at: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="at="):
        sd.Cluster({"worker": 1}).faults.crash("worker:0", at=at)


@pytest.mark.parametrize(
    "options",
    [
        {"at": 0.1, "restart_after": math.inf},
        {"at": 0.1, "restart_after": math.nan},
        {"at": 0.1, "restart_after": -1.0},
        {"after_steps": math.nan},
        {"after_steps": 2.0},
        {"after_steps": True},
        {"after_steps": 0},
        {"when": 5},
        {"at": 1.0, "after_steps": 3},
        {},
    ],
)
def test_a_crash_that_makes_no_sense_is_refused_and_not_planned(options: dict[str, Any]) -> None:
    cluster = sd.Cluster({"worker": 1})
    with pytest.raises(InvalidArgumentError):
        cluster.faults.crash("worker:0", **options)
    assert cluster.faults.planned == []


@pytest.mark.parametrize(
    "options",
    [
        {"factor": math.inf, "at": 0.0},
        {"factor": math.nan, "at": 0.0},
        {"factor": 0.0, "at": 0.0},
        {"factor": True, "at": 0.0},
        {"factor": 2.0, "at": 0.5, "until": 0.1},
        {"factor": 2.0, "at": 0.5, "until": 0.5},
        {"factor": 2.0, "at": 0.5, "until": math.nan},
        {"factor": 2.0, "at": 0.5, "until": math.inf},
    ],
)
def test_a_slow_task_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        sd.Cluster({"worker": 1}).faults.slow("worker:0", **options)


def test_a_fault_that_would_end_before_it_begins_never_fired() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator, step, _ = training(cluster)
    cluster.faults.slow("worker:0", 5.0, after_steps=3, until=1e-9)
    for _ in range(5):
        coordinator.schedule(step)
    coordinator.join()
    assert cluster.world.tasks["worker:0"].slowness == 1.0
    with pytest.warns(UserWarning, match="never fired"):
        cluster.close()


def test_after_steps_of_a_server_counts_its_updates() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator, step, _ = training(cluster)
    cluster.faults.crash("ps:0", after_steps=10)
    for _ in range(20):
        coordinator.schedule(step)
    with pytest.raises(sd.errors.UnavailableError):
        coordinator.join()
    assert cluster.world.tasks["ps:0"].updates == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cluster.close()


# -- predicates -------------------------------------------------------------------------------------------------------


def test_a_predicate_that_raises_is_its_own_error_and_not_the_closures() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator, step, variable = training(cluster)
    cluster.faults.crash("worker:0", when=lambda c: 1 / 0)
    for _ in range(6):
        coordinator.schedule(step)
    with pytest.raises(InvalidArgumentError, match=r"predicate of crash.*ZeroDivisionError") as caught:
        coordinator.join()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    coordinator.join()  # nothing was cancelled, and the predicate is not asked again
    assert variable.numpy().tolist() == [6.0] * 3


def test_a_predicate_that_would_wait_is_refused_on_a_worker_too() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator, step, variable = training(cluster)
    cluster.faults.crash("worker:0", when=lambda c: coordinator.join())
    for _ in range(6):
        coordinator.schedule(step)
    with pytest.raises(InvalidArgumentError, match="cannot wait"):
        coordinator.join()
    coordinator.join()
    assert variable.numpy().tolist() == [6.0] * 3


def test_a_predicate_that_fails_in_a_step_of_the_notebook_raises_there() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        variable = sd.Variable(0.0)
    step = sd.function(lambda: strategy.run(lambda: variable.assign_add(1.0)))
    strategy.cluster.faults.crash("worker:0", when=lambda c: 1 / 0)
    with pytest.raises(InvalidArgumentError, match="predicate"):
        step()
    step()


def test_a_predicate_that_looks_at_a_value_makes_the_run_depend_on_it() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator, step, variable = training(cluster)
    for _ in range(3):
        coordinator.schedule(step)
    coordinator.join()
    assert not cluster.trace.value_dependent
    cluster.faults.crash("worker:0", when=lambda c: float(variable.numpy()[0]) > 5, restart_after=0.001)
    for _ in range(6):
        coordinator.schedule(step)
    coordinator.join()
    assert cluster.trace.value_dependent
    cluster.close()


def test_a_look_in_the_notebook_before_a_fault_is_planned_makes_the_run_depend_on_it() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator, step, variable = training(cluster)
    seen = coordinator.schedule(sd.function(lambda: variable.value.sum())).fetch()
    assert not cluster.trace.value_dependent  # it was the last thing that happened
    cluster.faults.crash("worker:0", at=cluster.now + float(seen) + 1e-6, restart_after=0.001)
    coordinator.schedule(step)
    coordinator.join()
    assert cluster.trace.value_dependent


@pytest.mark.parametrize("figures", [{"at": 1e15}, {"at": 0.0, "restart_after": 1e20}])
def test_a_crash_beyond_the_end_of_the_clock_is_refused_and_not_planned(figures: dict[str, float]) -> None:
    cluster = sd.Cluster({"worker": 1})
    with pytest.raises(InvalidArgumentError, match=r"less than 1e\+15"):
        cluster.faults.crash("worker:0", **figures)
    with pytest.raises(InvalidArgumentError, match=r"less than 1e\+15"):
        cluster.faults.slow("worker:0", 2.0, at=0.0, until=1e300)
    assert cluster.faults.planned == []


@pytest.mark.parametrize("slow", ["worker:0", "ps:0"])
def test_factors_whose_product_has_no_end_fail_the_step_and_leave_the_device_usable(slow: str) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1}, hardware=sd.hardware.Device(launch_overhead=1.0))
    for _ in range(2):
        cluster.faults.slow(slow, 1e200, at=0.0, until=3.0)
    coordinator, _, variable = training(cluster)
    step = sd.function(lambda: variable.assign_add(variable.value * 2.0 + 1.0))
    coordinator.schedule(step)
    with pytest.raises(InvalidArgumentError, match=f"{slow} was to compute for inf s"):
        coordinator.join()
    sd.sleep(3.0 - cluster.now, cluster)
    coordinator.schedule(step)
    coordinator.join()
    assert variable.numpy().tolist() == [1.0] * 3


def test_the_trace_tells_when_a_task_became_slow_and_when_it_healed() -> None:
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.slow("worker:0", 2.0, at=0.1, until=0.5)
    cluster.faults.slow("worker:0", 3.0, at=0.2)
    sd.sleep(1.0, cluster)
    told = [(item.lane, item.category, item.time_s, item.facts) for item in cluster.trace.instants]
    assert told == [
        ("worker:0", "slow", 0.1, {"factor": 2.0, "until": 0.5}),
        ("worker:0", "slow", 0.2, {"factor": 3.0}),
        ("worker:0", "heal", 0.5, {"kind": "slow", "factor": 2.0}),
    ]
    cluster.close()


def test_a_slow_task_may_wait_for_a_predicate() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator, step, _ = training(cluster)
    fault = cluster.faults.slow("worker:0", 5.0, when=lambda c: c.world.tasks["ps:0"].updates >= 2)
    for _ in range(3):
        coordinator.schedule(step)
    coordinator.join()
    assert fault.fired
    assert cluster.world.tasks["worker:0"].slowness == 5.0
    cluster.close()


# -- waits that only a fault can end ----------------------------------------------------------------------------------


def standing_still(cluster: sd.Cluster) -> Any:
    """A main that sleeps for a second, whose worker is paused for ever in its middle."""
    cluster.faults.pause("worker:0", at=0.5)
    return cluster.launch(lambda: sd.sleep(1.0), restart="always")


def test_a_wait_goes_on_to_a_crash_that_starts_a_paused_task_again() -> None:
    cluster = sd.Cluster({"worker": 1})
    run = standing_still(cluster)
    cluster.faults.crash("worker:0", at=30.0, restart_after=2.0)
    run.join()
    assert cluster.now == pytest.approx(33.0)


@pytest.mark.parametrize(
    ("plan", "ends_s"),
    [
        (lambda faults: faults.crash("worker:1", at=30.0), 30.0),  # it is tried, and changes nothing
        (lambda faults: faults.slow("worker:0", 2.0, at=30.0), 1.0),
        (lambda faults: faults.duplicate("worker:0", "worker:1", at=30.0), 1.0),
        (lambda faults: faults.crash("worker:0", after_steps=1, restart_after=2.0), 1.0),  # nobody knows when
    ],
)
def test_a_wait_that_no_planned_fault_can_end_is_an_error(plan: Any, ends_s: float) -> None:
    cluster = sd.Cluster({"worker": 2})
    run = standing_still(cluster)
    plan(cluster.faults)
    with pytest.raises(sd.errors.DeadlineExceededError, match="worker:0 is paused, and waits for the end of a sleep"):
        run.join()
    assert cluster.now == pytest.approx(ends_s, abs=1e-3)


def test_a_program_that_has_ended_waits_for_no_planned_fault() -> None:
    cluster = sd.Cluster({"worker": 1})
    crash = cluster.faults.crash("worker:0", at=1e9)
    cluster.launch(lambda: sd.sleep(1.0)).join()
    assert cluster.now == 1.0
    with pytest.warns(UserWarning, match="never fired"):
        cluster.close()
    assert not crash.fired
