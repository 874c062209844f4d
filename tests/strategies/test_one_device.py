"""The default strategy: a step that is called outside of every scope is run by the strategy that it uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError


def variable_of(strategy: sd.MirroredStrategy, value: float) -> sd.Variable:
    with strategy.scope():
        return sd.Variable(value, name="v")


def test_step_called_outside_of_scopes_is_run_by_the_strategy_of_its_variables() -> None:
    strategy = sd.MirroredStrategy(2)
    v = variable_of(strategy, 1.0)

    @sd.function
    def step() -> Any:
        v.assign_add(1.0)
        return v.value

    assert [float(np.asarray(step())) for _ in range(2)] == [2.0, 3.0]
    assert step.owner is strategy


def test_step_called_in_a_scope_is_not_handed_to_another_strategy() -> None:
    v = variable_of(sd.MirroredStrategy(2), 1.0)
    step = sd.function(lambda: v.value)
    with sd.OneDeviceStrategy().scope(), pytest.raises(FailedPreconditionError, match="Mixing different strategies"):
        step()
    assert step.owner is None


def test_step_that_uses_the_replicas_of_two_strategies_is_refused_each_time() -> None:
    first, second = sd.MirroredStrategy(2), sd.MirroredStrategy(3)

    @sd.function
    def step() -> Any:
        return first.run(lambda: 1.0), second.run(lambda: 2.0)

    for _ in range(2):
        with pytest.raises(FailedPreconditionError, match="Make a step for each of them"):
            step()


def test_step_called_under_a_strategy_of_workers_runs_on_the_chief_and_names_the_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        with sd.ParameterServerStrategy(cluster).scope():
            v = sd.Variable(1.0, name="v")
            step = sd.function(lambda: v.value)
            assert float(step()) == 1.0
        assert float(step()) == 1.0
    assert "ClusterCoordinator" in caplog.text
    with pytest.raises(FailedPreconditionError, match="closed"):
        step()


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda name: sd.MirroredStrategy([name])], ids=["one device", "mirrored"])
def test_device_of_another_task_is_refused(make: Any) -> None:
    for here in ("gpu:0", "/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:0", "/job:worker/replica:0/task:0/gpu:0"):
        assert make(here).extended.worker_devices == ("worker:0/gpu:0",)
    for there in ("/job:worker/task:1/gpu:0", "/job:ps/replica:0/task:0/device:GPU:0"):
        with pytest.raises(InvalidArgumentError, match="this strategy runs on worker:0"):
            make(there)
