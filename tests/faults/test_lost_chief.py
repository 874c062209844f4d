"""The machine of the chief is lost: a launched main starts again on another one, and a program that drives the cluster ends."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import UnavailableError

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own


def train(directory: str) -> list[float]:
    strategy = sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile("adam", "mse")
    data = sd.Dataset.from_tensor_slices((np.ones((64, 4)), np.ones((64, 1)))).batch(8).repeat()
    backup = keras.callbacks.BackupAndRestore(directory, save_freq=5)
    return model.fit(data, epochs=2, steps_per_epoch=8, verbose=0, callbacks=[backup]).history["loss"]


@functools.cache
def trained(lost: str) -> tuple[list[float], int]:
    with sd.Cluster({"chief": 1, "worker": 2}) as cluster:
        if lost:
            cluster.faults.lose_host(lost, after_steps=12, restart_after=1.0)
        run = cluster.launch(train, job=["chief", "worker"], restart="always", args=(cluster.directory("backup"),))
        run.join()
        return run.results["worker:0"], sum(run.restarts.values())


@pytest.mark.parametrize("lost", ["chief", "worker:1"])
@pytest.mark.sample(2)
def test_a_training_of_launched_mains_goes_on_with_the_bits_of_the_run_without_it(lost: str) -> None:
    losses, restarts = trained(lost)
    assert losses == trained("")[0]
    assert restarts == 3


def test_a_launched_coordinator_begins_again() -> None:
    def main() -> Any:
        resolver = sd.TFConfigClusterResolver()
        if resolver.task_type in ("worker", "ps"):
            sd.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id).join()
            return None
        strategy = sd.ParameterServerStrategy(resolver)
        with strategy.scope():
            total = sd.Variable(0.0)
        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(40):
            coordinator.schedule(sd.function(lambda: total.assign_add(1.0)))
        coordinator.join()
        return float(total.numpy())

    with sd.Cluster({"chief": 1, "worker": 2, "ps": 1}) as cluster:
        cluster.faults.lose_host("chief", at=0.001, restart_after=1.0)
        run = cluster.launch(main, job=["chief", "worker", "ps"], restart="always")
        run.join()
        assert (run.results["chief:0"], run.restarts["chief:0"]) == (40.0, 1)


def test_a_program_that_drives_the_cluster_ends_with_its_machine() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    cluster.faults.lose_host("chief", at=0.5)
    coordinator.schedule(sd.sleep, (1.0,))
    with pytest.raises(UnavailableError, match=r"chief:0 was lost at 0\.500000 s, and this program with it"):
        coordinator.join()
