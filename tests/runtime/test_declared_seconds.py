"""A declared duration counts once for each step, whatever the step computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd

STEPS: dict[str, Callable[[sd.Variable], Any]] = {
    "adds a constant": lambda v: v.assign_add(np.ones(2, np.float32)),
    "assigns a constant": lambda v: v.assign(np.ones(2, np.float32)),
    "reads": lambda v: v.value,
    "nothing": lambda v: None,
    "computes": lambda v: v.assign_add(v.value * 0.0 + 1.0),
}
MESSAGES_S = 0.01


@pytest.mark.parametrize("what", STEPS)
def test_each_closure_takes_its_seconds(what: str) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(np.zeros(2, np.float32))
    coordinator = sd.ClusterCoordinator(strategy)
    step = sd.function(lambda: STEPS[what](v), seconds=1.0)
    for _ in range(2):
        coordinator.schedule(step)
    coordinator.join()
    assert 2.0 <= cluster.now < 2.0 + MESSAGES_S
    assert v.numpy().tolist() == {"adds a constant": [2.0, 2.0], "computes": [2.0, 2.0], "assigns a constant": [1.0, 1.0]}.get(
        what, [0.0, 0.0]
    )


@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2)], ids=["one device", "mirrored"])
def test_each_synchronous_step_takes_its_seconds(make: Callable[[], Any], what: str) -> None:
    strategy = make()
    with strategy.scope():
        v = sd.Variable(np.zeros(2, np.float32), aggregation=sd.VariableAggregation.MEAN)
    step = sd.function(lambda: strategy.run(lambda: STEPS[what](v)), seconds=1.0)
    began_s = strategy.cluster.now
    for _ in range(2):
        step()
    assert 2.0 <= strategy.cluster.now - began_s < 2.0 + MESSAGES_S


@pytest.mark.parametrize("devices", [1, 2])
def test_closures_do_not_wait_for_elements(devices: int) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster, devices_per_worker=devices)
    options = sd.Options()
    options.seconds_per_element = 5.0
    coordinator = sd.ClusterCoordinator(strategy)
    batches = strategy.distribute_dataset(sd.Dataset.range(8).batch(4).with_options(options))
    step = sd.function(lambda it: strategy.run(lambda x: x.sum() * 1.0, args=(next(it),)), seconds=1.0)
    iterator = iter(coordinator.create_per_worker_dataset(batches))
    for _ in range(2):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    assert 2.0 <= cluster.now < 2.0 + MESSAGES_S
