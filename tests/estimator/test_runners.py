"""Who takes the steps of a training follows from its strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
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


def test_a_launched_main_whose_data_end_first_does_not_take_gradients_of_others_for_losses(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> sd.estimator.EstimatorSpec:
        weight = keras.Variable(0.0, name="weight")  # whose gradient has the shape of a loss
        loss = keras.ops.mean((features * weight - labels) ** 2)
        return sd.estimator.EstimatorSpec(mode, loss=loss, train_op=keras.optimizers.SGD(0.1))

    def input_of_two_lengths(input_context: sd.InputContext) -> sd.Dataset:
        x = np.ones(4, np.float32)
        return sd.Dataset.from_tensor_slices((x, -x)).batch(4).repeat(2 + input_context.input_pipeline_id)

    def main() -> None:
        config = sd.estimator.RunConfig(str(tmp_path), train_distribute=sd.MultiWorkerMirroredStrategy)
        sd.estimator.Estimator(model_fn, config=config).train(input_of_two_lengths)

    with pytest.raises(InvalidArgumentError, match=r"before those of others, pass steps_per_epoch \(to an Estimator steps or max_steps\)"):
        sd.Cluster({"worker": 2}).launch(main).join()
