"""Numbers in the other byte order, as files have them (``np.frombuffer(data, ">i4")``), are the same numbers wherever they come in."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

FOREIGN = ">" if sys.byteorder == "little" else "<"


@pytest.fixture
def strategy() -> Any:
    return sd.MirroredStrategy(devices=2)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "c8"])
def test_numbers_keep_their_values(strategy: Any, kind: str) -> None:
    native = np.arange(4).astype(kind)
    foreign = native.astype(FOREIGN + kind)
    total = sd.function(lambda x: x.sum())

    def found(array: Any) -> list[Any]:
        with strategy.scope():
            made, assigned = sd.Variable(array), sd.Variable(np.zeros(4, kind))
        assigned.assign(array)
        data = sd.Dataset.from_tensor_slices(array)
        mapped = sd.Dataset.from_tensor_slices(native).map(lambda x: np.asarray(x).astype(array.dtype))
        batch = next(iter(strategy.distribute_dataset(data.batch(4))))
        results = [strategy.run(total, args=(given,)) for given in (array, batch)]
        values = [part for result in results for part in strategy.local_results(result)]
        return [made.numpy(), assigned.numpy(), *data.batch(4), *mapped.batch(4), *map(np.asarray, values)]

    for one, other in zip(found(foreign), found(native), strict=True):
        assert np.array_equal(one, other) and one.dtype == other.dtype and one.dtype.isnative


def test_a_worker_takes_them_from_closures_and_a_model_from_fit(strategy: Any) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    assert float(coordinator.schedule(sd.function(lambda x: x.sum()), args=(np.arange(3, dtype=FOREIGN + "f4"),)).fetch()) == 3.0
    x, y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
    losses: list[Any] = []
    for order in ("=", FOREIGN):
        with strategy.scope():
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile("sgd", "mse")
        losses.append(model.fit(x.astype(order + "f4"), y.astype(order + "f4"), verbose=0).history["loss"])
    assert losses[0] == losses[1]
