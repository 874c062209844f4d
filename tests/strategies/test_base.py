"""What every strategy is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.strategies.base import TrainingStrategy
from simdist.strategies.synchronous import SynchronousStrategy


@pytest.mark.parametrize(
    "make",
    [
        sd.OneDeviceStrategy,
        sd.MirroredStrategy,
        sd.CentralStorageStrategy,
        sd.TPUStrategy,
        sd.MultiWorkerMirroredStrategy,
        lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})),
    ],
)
def test_every_strategy_has_what_a_strategy_is(make: type) -> None:
    assert isinstance(make(), TrainingStrategy)


class EveryOther(SynchronousStrategy):
    """A user's own: a replica on every other worker."""

    def replica_devices(self) -> list[str]:
        return [f"worker:{number}" for number in range(0, self.cluster.spec.num_tasks("worker"), 2)]


class Twice(SynchronousStrategy):
    def replica_devices(self) -> list[str]:
        return ["worker:0", "worker:0"]


class Nowhere(SynchronousStrategy):
    def replica_devices(self) -> list[str]:
        return []


def losses(strategy: sd.Strategy) -> list[float]:
    rows = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
    with strategy.scope():
        model: Any = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    return model.fit(rows, rows.sum(axis=1) * 2.0, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_a_strategy_of_a_users_own_trains_as_one_device(engine: Any) -> None:
    strategy = EveryOther(sd.Cluster({"worker": 4}, engine=engine))
    assert strategy.devices == ["worker:0", "worker:2"]
    assert losses(strategy) == pytest.approx(losses(sd.OneDeviceStrategy()), rel=1e-5)


class OneByOne(SynchronousStrategy):
    def replica_devices(self) -> Any:
        return (f"worker:{number}" for number in range(2))


class Several(SynchronousStrategy):
    def replica_devices(self) -> Any:
        return "worker:0"


def test_devices_that_a_generator_gives_are_those_of_its_list_and_one_name_is_none() -> None:
    assert OneByOne(sd.Cluster({"worker": 2})).devices == ["worker:0", "worker:1"]
    with pytest.raises(TypeError, match=r"Several\.replica_devices\(\) is 'worker:0'; expected a list of a device for each replica"):
        Several(sd.Cluster({"worker": 2}))


@pytest.mark.parametrize("kind", [Twice, Nowhere])
def test_replicas_without_a_device_each_are_refused(kind: type[SynchronousStrategy]) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=rf"{kind.__name__}\.replica_devices\(\) gave .*; expected a device for each"):
        kind(sd.Cluster({"worker": 2}))
