"""Options of a coordinator: a queue with a bound, workers that begin later, a watchdog, and how many lost messages a closure survives."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import simdist as sd
from simdist.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, TimedOutError

MESSAGE_S = 0.01  # far longer than all messages of a closure without bytes take


def coordinated(workers: int = 2, **options: Any) -> tuple[sd.Cluster, sd.ClusterCoordinator]:
    cluster = sd.Cluster({"worker": workers, "ps": 1})
    return cluster, sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster), **options)


# -- a queue with a bound -----------------------------------------------------------------------------------------------


def test_schedule_waits_while_the_queue_is_full_and_goes_on_when_a_closure_is_taken() -> None:
    cluster, coordinator = coordinated(1, max_queued=2)
    returned_s: list[float] = []
    for _ in range(6):
        coordinator.schedule(lambda: sd.sleep(1.0))
        returned_s.append(cluster.now)
    assert [round(second) for second in returned_s] == [0, 0, 0, 1, 2, 3]
    coordinator.join()
    assert cluster.now == pytest.approx(6.0, abs=MESSAGE_S)


@pytest.mark.parametrize("bound", [0, -1])
def test_without_a_bound_schedule_never_waits(bound: int) -> None:
    cluster, coordinator = coordinated(1, max_queued=bound)
    for _ in range(50):
        coordinator.schedule(lambda: 1)
    assert (cluster.now, coordinator.pending) == (0.0, 50)
    coordinator.join()


def test_everybody_who_waits_for_room_gets_it_in_turn() -> None:
    cluster, coordinator = coordinated(1, max_queued=1, start_delay_s=0.0)
    cluster_of_callers = cluster.launch(lambda: [coordinator.schedule(lambda: sd.sleep(1.0)) for _ in range(3)] and cluster.now, job="ps")
    for _ in range(3):
        coordinator.schedule(lambda: sd.sleep(1.0))
    cluster_of_callers.join()
    coordinator.join()
    assert coordinator.scheduled == 6 and cluster.now == pytest.approx(6.0, abs=MESSAGE_S)


def test_a_full_queue_that_an_error_empties_raises_the_error_in_schedule() -> None:
    _, coordinator = coordinated(1, max_queued=1)

    def fails() -> None:
        sd.sleep(1.0)
        raise ValueError("own error")

    coordinator.schedule(fails)
    coordinator.schedule(lambda: 1)
    with pytest.raises(ValueError, match="own error"):
        coordinator.schedule(lambda: 2)
    assert coordinator.scheduled == 2
    assert coordinator.schedule(lambda: 3).fetch() == 3


def test_a_full_queue_that_nobody_can_empty_is_an_error_and_no_hang() -> None:
    cluster, coordinator = coordinated(1, max_queued=1)
    cluster.faults.crash("worker:0", at=0.5)
    coordinator.schedule(lambda: sd.sleep(1.0))
    coordinator.schedule(lambda: 1)
    with pytest.raises(DeadlineExceededError, match="room in the queue, which holds max_queued=1"):
        coordinator.schedule(lambda: 2)


def value_of_rounds(max_queued: int) -> Any:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), mode="sync")
    with strategy.scope():
        v = sd.Variable(1.0)
    coordinator = sd.ClusterCoordinator(strategy, max_queued=max_queued)
    for _ in range(12):
        coordinator.schedule(sd.function(lambda: v.assign(v.value * 1.5)))
    coordinator.join()
    return v.numpy()


def test_a_small_queue_changes_no_number_of_workers_in_rounds() -> None:
    assert value_of_rounds(1) == value_of_rounds(262_144)


# -- workers that begin later -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cap", "begins"), [(0.0, [0, 2, 4]), (3.0, [0, 2, 3])])
def test_worker_i_begins_i_delays_later_up_to_the_greatest(cap: float, begins: list[int]) -> None:
    cluster, coordinator = coordinated(3, start_delay_s=2.0, start_delay_max_s=cap)
    for _ in range(6):
        coordinator.schedule(lambda: sd.sleep(10.0))
    coordinator.join()
    first = {span.lane: span.start_s for span in reversed(list(cluster.trace.spans.where(category="closure")))}
    assert [round(first[f"worker:{index}"]) for index in range(3)] == begins


def test_a_worker_that_restarts_before_its_start_begins_no_earlier() -> None:
    cluster, coordinator = coordinated(2, start_delay_s=5.0)
    cluster.faults.crash("worker:1", at=1.0, restart_after=1.0)
    for _ in range(20):
        coordinator.schedule(lambda: sd.sleep(1.0))
    coordinator.join()
    assert min(span.start_s for span in cluster.trace.spans.where(category="closure", lane="worker:1")) >= 5.0


def test_a_worker_that_is_down_at_its_start_begins_when_it_is_back() -> None:
    cluster, coordinator = coordinated(2, start_delay_s=2.0)
    cluster.faults.crash("worker:1", at=1.0, restart_after=4.0)
    for _ in range(16):
        coordinator.schedule(lambda: sd.sleep(1.0))
    coordinator.join()
    assert min(span.start_s for span in cluster.trace.spans.where(category="closure", lane="worker:1")) == pytest.approx(5.0, abs=0.1)


# -- the watchdog -------------------------------------------------------------------------------------------------------


def test_the_watchdog_warns_and_marks_when_no_closure_ends_and_says_who_waits_for_what() -> None:
    cluster, coordinator = coordinated(2, watchdog_s=3.0)
    coordinator.schedule(lambda: sd.sleep(7.0))
    with pytest.warns(
        RuntimeWarning, match=r"No closure has ended for 3 s .* 0 closures are queued; worker:0 runs closure 0, worker:1 is idle"
    ):
        coordinator.join()
    marks = cluster.trace.instants.where(category="watchdog")
    assert [(mark.lane, mark.time_s) for mark in marks] == [("chief:0", 3.0), ("chief:0", 6.0)]
    assert "worker:0 waits for the end of a sleep" in marks[0].name


def test_of_many_tasks_that_wait_the_watchdog_and_the_error_of_a_wait_name_ten() -> None:
    cluster, coordinator = coordinated(300, watchdog_s=3.0)
    for _ in range(300):
        coordinator.schedule(lambda: sd.sleep(4.0))
    with pytest.warns(RuntimeWarning, match="worker:8 waits for .* more wait for something") as warned:
        coordinator.join()
    assert sum(f"worker:{number} waits" in str(warned[0].message) for number in range(300)) <= 10
    assert len(str(warned[0].message)) < 1_500
    gate = cluster.engine.world.clock.gate()  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(300):
        coordinator.schedule(lambda: gate.wait("what never comes"))
    with pytest.raises(DeadlineExceededError, match=r"worker:8 waits for .*; and 2.. more wait for something") as error:
        coordinator.join()
    assert len(str(error.value)) < 2_000


def test_a_closure_that_ends_resets_the_watchdog_and_idle_time_is_no_reason_to_warn() -> None:
    cluster, coordinator = coordinated(1, watchdog_s=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            coordinator.schedule(lambda: sd.sleep(2.0))
        coordinator.join()
        sd.sleep(100.0, cluster)
        coordinator.schedule(lambda: sd.sleep(2.9))
        coordinator.join()
    assert not cluster.trace.instants.where(category="watchdog")


def test_the_watchdog_keeps_no_wait_alive() -> None:
    cluster, coordinator = coordinated(1, watchdog_s=3.0)
    cluster.faults.crash("worker:0", at=1.0)
    coordinator.schedule(lambda: sd.sleep(2.0))
    with pytest.raises(DeadlineExceededError, match="nothing that is still to happen"):
        coordinator.join()
    assert cluster.now < 3.0


# -- lost messages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerated", [0, 2])
def test_a_closure_survives_so_many_lost_messages_and_no_more(tolerated: int) -> None:
    cluster, coordinator = coordinated(1, tolerated_time_outs=tolerated)
    cluster.faults.drop("chief:0", "worker:0", kind="closure", at=0.0)
    sd.sleep(0.1, cluster)
    value = coordinator.schedule(lambda: 7)
    with pytest.raises(TimedOutError, match="did not reply to closure 0"):
        coordinator.join()
    assert len(cluster.trace.instants.where(category="retry")) == tolerated
    assert value.state == "failed"


# -- arguments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_queued": 1.5}, TypeError),
        ({"start_delay_s": -1.0}, InvalidArgumentError),
        ({"start_delay_max_s": "1"}, TypeError),
        ({"watchdog_s": 0}, InvalidArgumentError),
        ({"watchdog_s": float("nan")}, InvalidArgumentError),
        ({"tolerated_time_outs": -1}, InvalidArgumentError),
        ({"tolerated_time_outs": True}, TypeError),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        coordinated(**options)


def test_a_second_coordinator_of_a_strategy_has_the_options_of_the_first() -> None:
    _, coordinator = coordinated(max_queued=3)
    strategy = coordinator.strategy
    assert sd.ClusterCoordinator(strategy) is coordinator is sd.ClusterCoordinator(strategy, max_queued=3)
    with pytest.raises(InvalidArgumentError, match=r"has a coordinator already, with CoordinatorOptions\(max_queued=3"):
        sd.ClusterCoordinator(strategy, max_queued=4)


@pytest.mark.parametrize("options", [{"watchdog_s": 1.0}, {"start_delay_s": 1.0}], ids=lambda options: next(iter(options)))
def test_seconds_are_refused_where_there_is_no_time(options: dict[str, Any]) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, engine="in_process"))
    with pytest.raises(FailedPreconditionError, match=r"No time passes in this cluster"):
        sd.ClusterCoordinator(strategy, **options)
    assert sd.ClusterCoordinator(strategy, max_queued=1).schedule(lambda: 1).fetch() == 1
