"""Mains on every task: when `join` returns, what it raises, and what the trace says of those that start again."""

from __future__ import annotations

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
        cluster.runtime.clock.sleep(1e-6)
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
