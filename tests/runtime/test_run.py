"""Mains on every task: when `join` returns, what it raises, and what the trace says of those that start again."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import simdist as sd


def train(steps: int = 20) -> float:
    """A synchronous main: one variable, `steps` all-reduced updates."""
    strategy = sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = sd.Variable(np.zeros(3, np.float32), aggregation=sd.VariableAggregation.SUM)

    @sd.function
    def step() -> None:
        strategy.run(lambda: weight.assign_add(np.ones(3, np.float32)))

    for _ in range(steps):
        step()
    return float(np.asarray(weight.value)[0])


def test_mains_that_take_equally_many_steps_all_end() -> None:
    with sd.Cluster({"worker": 3}) as cluster:
        run = cluster.launch(train)
        run.join()
    assert run.results == {f"worker:{index}": 60.0 for index in range(3)}


def test_crash_without_restart_is_raised_when_the_others_have_learned_of_it() -> None:
    seen: dict[int, str] = {}

    def main() -> None:
        try:
            train()
        except sd.errors.UnavailableError as error:
            index = sd.TFConfigClusterResolver().task_id
            assert index is not None
            seen[index] = str(error)
            raise

    with sd.Cluster({"worker": 3}) as cluster:
        cluster.faults.crash("worker:1", after_steps=7)
        run = cluster.launch(main)
        with pytest.raises(sd.errors.UnavailableError, match="worker:1 crashed"):
            run.join()
        assert [i.lane for i in cluster.trace.instants.where(category="detect")] == ["worker:1"]
    assert run.results == {}
    assert sorted(seen) == [0, 2]
    assert all(text.startswith("worker:1 died") for text in seen.values())


def test_crash_without_restart_is_raised_though_another_main_waits_for_ever() -> None:
    cluster = sd.Cluster({"worker": 2})

    def main() -> None:
        if sd.TFConfigClusterResolver().task_id == 0:
            sd.Server({"worker": ["a:1", "b:1"]}, "worker", 0).join()
        cluster.world.clock.sleep(1e-6)
        train(8)

    with cluster:
        cluster.faults.crash("worker:1", at=1e-9)
        with pytest.raises(sd.errors.UnavailableError, match="worker:1 crashed"):
            cluster.launch(main).join()


def test_own_error_of_a_main_ends_the_wait_at_once() -> None:
    def main() -> None:
        if sd.TFConfigClusterResolver().task_id == 1:
            raise KeyError("mine")
        train()

    with sd.Cluster({"worker": 2}) as cluster, pytest.raises(KeyError, match="mine"):
        cluster.launch(main).join()


def test_restarts_of_all_mains_are_counted_and_recorded() -> None:
    with sd.Cluster({"worker": 3}) as cluster:
        cluster.faults.crash("worker:1", after_steps=7, restart_after=0.5)
        run = cluster.launch(train, restart="always")
        run.join()
        restarts = cluster.trace.instants.where(category="restart")
    assert run.restarts == {f"worker:{index}": 1 for index in range(3)}
    assert set(run.results.values()) == {60.0}
    assert [restart.lane for restart in restarts] == ["worker:1", "worker:0", "worker:2"]


# -- how a main ends --------------------------------------------------------------------------------------------------


def test_a_main_that_is_killed_before_its_first_line_has_not_succeeded() -> None:
    ran: list[int] = []
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.crash("worker:0", at=0.0)
    run = cluster.launch(lambda: ran.append(1))
    with pytest.raises(sd.errors.UnavailableError, match="worker:0 crashed"):
        run.join()
    assert (run.results, ran) == ({}, [])


def test_a_main_that_is_killed_before_its_first_line_starts_again_with_its_task() -> None:
    ran: list[float] = []
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:0", at=0.0, restart_after=1.0)
    run = cluster.launch(lambda: ran.append(cluster.now) or "result", restart="always")
    run.join()
    assert run.results == {"worker:0": "result", "worker:1": "result"}
    assert (run.restarts, ran) == ({"worker:0": 1, "worker:1": 0}, [0.0, 1.0])


def failing_once(cluster: sd.Cluster, log: list[tuple[int, str, float]]) -> int:
    """A main that fails at 0.1 s the first time, and then takes three seconds."""
    me = 1 + sum(what == "starts" for _, what, _ in log)
    assert cluster.world.tasks["worker:0"].alive
    log.append((me, "starts", cluster.now))
    if me == 1:
        sd.sleep(0.1)
        raise sd.errors.UnavailableError("the others are gone")
    sd.sleep(3.0)
    log.append((me, "ends", cluster.now))
    return me


def test_a_main_does_not_start_on_a_task_that_died_during_its_back_off() -> None:
    log: list[tuple[int, str, float]] = []
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.crash("worker:0", at=0.5)
    run = cluster.launch(failing_once, args=(cluster, log), restart="always")
    with pytest.raises(sd.errors.UnavailableError, match=r"worker:0 crashed and does not start again.*restart_after"):
        run.join()
    assert log == [(1, "starts", 0.0)]
    assert run.results == {}


@pytest.mark.parametrize(("restart_after", "starts_s"), [(0.2, 0.7), (0.6, 1.1), (3.0, 3.5)])
def test_a_main_runs_once_at_a_time_though_its_task_restarts_during_its_back_off(restart_after: float, starts_s: float) -> None:
    log: list[tuple[int, str, float]] = []
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.crash("worker:0", at=0.5, restart_after=restart_after)
    run = cluster.launch(failing_once, args=(cluster, log), restart="always")
    run.join()
    assert log == [(1, "starts", 0.0), (2, "starts", starts_s), (2, "ends", starts_s + 3.0)]
    assert (run.results, run.restarts) == ({"worker:0": 2}, {"worker:0": 1})


def test_what_a_main_returns_after_its_task_has_died_is_not_its_result() -> None:
    def main() -> str:
        try:
            sd.sleep(1.0)
        except BaseException:
            return "from beyond"
        return "alive"

    cluster = sd.Cluster({"worker": 1})
    cluster.faults.crash("worker:0", at=0.5, restart_after=0.1)
    run = cluster.launch(main, restart="always")
    run.join()
    assert run.results == {"worker:0": "alive"}


@pytest.mark.parametrize("status", [None, 0])
def test_a_main_that_exits_with_status_0_has_succeeded(status: int | None) -> None:
    run = sd.Cluster({"worker": 1}).launch(lambda: sys.exit(status))
    run.join()
    assert run.results == {"worker:0": None}


def test_a_main_that_exits_with_another_status_has_failed_and_may_start_again() -> None:
    run = sd.Cluster({"worker": 1}).launch(lambda: sys.exit(3))
    with pytest.raises(sd.errors.AbortedError, match=r"sys.exit\(3\)") as caught:
        run.join()
    assert isinstance(caught.value.__cause__, SystemExit)
    tries: list[int] = []
    run = sd.Cluster({"worker": 1}).launch(lambda: tries.append(1) or (len(tries) < 3 and sys.exit(3)), restart="always")
    run.join()
    assert run.restarts == {"worker:0": 2}


def test_mains_that_start_again_hold_the_memory_of_one() -> None:
    with sd.Cluster({"worker": 3}) as cluster:
        cluster.faults.crash("worker:0", after_steps=7, restart_after=0.01)
        run = cluster.launch(train, restart="always")
        run.join()
    assert run.restarts == dict.fromkeys(run.results, 1)
    assert {name: task.memory.in_use_bytes for name, task in cluster.world.tasks.items()} == {
        "chief:0": 0,
        **dict.fromkeys(run.results, 12),
    }


def test_two_runs_on_one_task_both_start_again() -> None:
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.crash("worker:0", at=0.5, restart_after=0.1)
    runs = [cluster.launch(lambda n=n: sd.sleep(1.0) or n, restart="always") for n in range(2)]
    for number, run in enumerate(runs):
        run.join()
        assert (run.results, run.restarts) == ({"worker:0": number}, {"worker:0": 1})


def test_a_main_on_a_task_that_is_down_starts_once_when_the_task_is_back() -> None:
    cluster, seen = sd.Cluster({"worker": 1}), list[float]()
    cluster.faults.crash("worker:0", at=1.0, restart_after=3.0)
    sd.sleep(2.0, cluster)
    run = cluster.launch(lambda: seen.append(cluster.now) or sd.sleep(5.0), restart="always")
    run.join()
    assert (seen, cluster.now, run.restarts) == ([4.0], 9.0, {"worker:0": 0})


def test_a_main_on_a_task_that_is_down_and_stays_so_never_runs() -> None:
    cluster, seen = sd.Cluster({"worker": 2}), list[str]()
    cluster.faults.crash("worker:0", at=1.0)
    sd.sleep(2.0, cluster)
    with pytest.raises(sd.errors.UnavailableError, match="worker:0 is down"):
        cluster.launch(lambda: seen.append("ran")).join()
    assert seen == ["ran"]
    with pytest.raises(sd.errors.UnavailableError, match="worker:0 crashed and does not start again"):
        cluster.launch(lambda: None, restart="always").join()


def test_mains_of_another_run_that_have_returned_leave_nobody_alone() -> None:
    cluster = sd.Cluster({"worker": 2})
    first = cluster.launch(lambda: "done")
    second = cluster.launch(lambda: sd.sleep(1.0) or train(3))
    first.join()
    second.join()
    assert second.results == {"worker:0": 6.0, "worker:1": 6.0}


def test_a_main_that_exits_with_status_0_has_not_failed_for_the_others() -> None:
    def main() -> None:
        index = sd.TFConfigClusterResolver().task_id
        train(1 if index == 0 else 2)
        sys.exit(0)

    run = sd.Cluster({"worker": 2}).launch(main)
    with pytest.raises(sd.errors.UnavailableError, match="The main of worker:0 has ended"):
        run.join()
    assert run.results == {"worker:0": None}


def test_mains_that_were_killed_leave_no_listener_behind() -> None:
    with sd.Cluster({"worker": 2}) as cluster:
        for number in range(1, 4):
            cluster.faults.crash("worker:0", after_steps=5 * number, restart_after=0.01)
        run = cluster.launch(train, restart="always")
        run.join()
        assert run.restarts["worker:0"] == 3
        assert len(cluster.world.listeners) <= 2 * len(run.results)
        assert len(cluster.world.groups) == 1


def test_a_main_that_failed_by_itself_does_not_run_again_after_a_crash() -> None:
    tries: list[float] = []
    cluster = sd.Cluster({"worker": 1})

    def main() -> None:
        tries.append(cluster.now)
        raise ValueError("my own")

    run = cluster.launch(main, restart="always")
    with pytest.raises(ValueError, match="my own"):
        run.join()
    cluster.faults.crash("worker:0", at=cluster.now + 1.0, restart_after=0.1)
    sd.sleep(5.0, cluster)
    assert tries == [0.0]


def test_a_deadline_that_a_main_has_missed_is_its_own_error_while_another_task_is_down() -> None:
    def main() -> None:
        if sd.TFConfigClusterResolver().task_id == 0:
            sd.sleep(1.0)
            raise sd.errors.DeadlineExceededError("mine")
        sd.sleep(5.0)

    with sd.Cluster({"worker": 2}) as cluster:
        cluster.faults.crash("worker:1", at=0.5, restart_after=10.0)
        with pytest.raises(sd.errors.DeadlineExceededError, match="mine"):
            cluster.launch(main, restart="always").join()


def test_join_after_close_says_that_the_cluster_was_closed() -> None:
    with sd.Cluster({"worker": 2}) as cluster:
        run = cluster.launch(train)
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"was ended by cluster.close\(\). Call join\(\)"):
        run.join()
