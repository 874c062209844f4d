"""A loop that repeats a step which fails at once ends with an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import simdist as sd
from simdist.runtime.simulated import failing_steps


def variable_and_step() -> tuple[sd.Variable, Callable[[], object]]:
    strategy = sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = sd.Variable(np.zeros(3, np.float32), aggregation=sd.VariableAggregation.SUM)
    return weight, sd.function(lambda: strategy.run(lambda: weight.assign_add(np.ones(3, np.float32))))


@pytest.mark.parametrize("caught", [sd.errors.UnavailableError, Exception, BaseException])
def test_a_main_that_repeats_a_step_that_fails_at_once_ends(caught: type[BaseException]) -> None:
    def main() -> None:
        index = sd.TFConfigClusterResolver().task_id
        _, step = variable_and_step()
        while True:
            try:
                step()
            except caught:
                if index == 1:
                    raise

    with sd.Cluster({"worker": 2}) as cluster:
        cluster.faults.crash("worker:1", after_steps=4, restart_after=1.0)
        run = cluster.launch(main, restart="always")
        with pytest.raises(
            sd.errors.DeadlineExceededError, match=r"steps of the program of worker:0 have failed .* sd\.sleep.*worker:1 died"
        ):
            run.join()


def test_a_main_that_lets_time_pass_may_try_again() -> None:
    def main() -> np.ndarray:
        done = 0
        weight, step = variable_and_step()
        while done < 10:
            try:
                step()
                done += 1
            except sd.errors.UnavailableError:
                sd.sleep(0.001)
                weight, step = variable_and_step()
                done = 0
        return weight.numpy()

    with sd.Cluster({"worker": 2}) as cluster:
        cluster.faults.crash("worker:1", after_steps=4, restart_after=1.0)
        run = cluster.launch(main, restart="always")
        run.join()
    assert [result.tolist() for result in run.results.values()] == [[20.0] * 3] * 2


def test_a_program_that_drives_all_and_repeats_a_step_that_fails_at_once_ends() -> None:
    with sd.Cluster({"worker": 2}) as cluster:
        strategy = sd.MultiWorkerMirroredStrategy(cluster)
        with strategy.scope():
            weight = sd.Variable(np.zeros(3, np.float32), aggregation=sd.VariableAggregation.SUM)
        step = sd.function(lambda: strategy.run(lambda: weight.assign_add(np.ones(3, np.float32))))
        cluster.faults.crash("worker:1", after_steps=4)

        def train() -> None:
            while True:
                try:
                    step()
                except sd.errors.UnavailableError:
                    continue

        with pytest.raises(sd.errors.DeadlineExceededError, match="steps of this program have failed"):
            train()


def test_a_step_that_fails_for_another_reason_may_fail_as_often_as_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for the largest batch that fits, say; each looks for memory by a collection, so the limit is a small one here."""
    monkeypatch.setattr(failing_steps, "MOST", 5)
    cluster = sd.Cluster({"worker": 1}, hardware={"worker": sd.hardware.Device(memory=8.0)})
    strategy = sd.OneDeviceStrategy(cluster=cluster)
    step = sd.function(lambda x: strategy.run(lambda: x.sum()))
    for _ in range(failing_steps.MOST + 2):
        with pytest.raises(sd.errors.ResourceExhaustedError):
            step(np.ones(4, np.float32))
