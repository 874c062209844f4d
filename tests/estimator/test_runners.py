"""Who takes the steps of a training follows from its strategy."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.estimator.runners import ReplicaRunner, WorkerRunner, training_runner


def rows(context: sd.InputContext) -> sd.Dataset:
    return sd.Dataset.range(4).batch(2)


def servers(devices: int) -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), devices_per_worker=devices)


def test_workers_of_parameter_servers_take_steps_by_a_coordinator_and_replicas_together() -> None:
    assert isinstance(training_runner(servers(1), rows, 0.0), WorkerRunner)
    assert isinstance(training_runner(sd.MirroredStrategy(2), rows, 0.0), ReplicaRunner)


def test_workers_with_several_devices_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"with 2 devices per worker, .* Leave devices_per_worker= out"):
        training_runner(servers(2), rows, 0.0)
