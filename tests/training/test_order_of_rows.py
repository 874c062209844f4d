"""Predictions have the order of their rows, and each row counts once, however workers and replicas share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import covering, sampled
from simdist import keras

X = np.arange(42, dtype=np.float32)[:, None]
STRATEGIES: dict[str, Callable[[], Any]] = {
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
    "workers 3 x 2": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), devices_per_worker=2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
}


def model_of(strategy: str) -> Any:
    with STRATEGIES[strategy]().scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile("sgd", "mse", metrics=["mae"])
    return model


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.sample(2)
def test_predictions_have_the_order_of_their_rows_also_where_a_batch_is_short(strategy: str) -> None:
    for size in (16, 10):
        np.testing.assert_array_equal(model_of(strategy).predict(X, batch_size=size, verbose=0), X)


CASES = [(strategy, policy) for strategy in STRATEGIES for policy in ("OFF", "DATA")]


@pytest.mark.parametrize(("strategy", "policy"), sampled(CASES, covering(CASES)))
def test_each_row_counts_once_whatever_a_dataset_says_of_sharding(strategy: str, policy: str) -> None:
    options = sd.Options()
    options.experimental_distribute.auto_shard_policy = sd.AutoShardPolicy[policy]
    dataset = sd.Dataset.from_tensor_slices((X, np.zeros_like(X))).batch(16).with_options(options)
    model = model_of(strategy)
    np.testing.assert_array_equal(model.predict(dataset, verbose=0), X)
    assert model.evaluate(dataset, verbose=0, return_dict=True) == pytest.approx({"loss": np.mean(X**2), "mae": np.mean(X)}, rel=1e-5)


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_an_epoch_of_files_of_unequal_length_ends_with_the_last_row(drop_remainder: bool) -> None:
    files: dict[str, Any] = {"long": X[:20] / 20, "short": X[20:28] / 20}
    data = sd.Dataset.from_files(list(files), read=files.get).map(lambda x: (x, 3 * x)).batch(4, drop_remainder=drop_remainder)
    with STRATEGIES["workers"]().scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    losses = model.fit(data, verbose=0).history["loss"]
    kernel, total = 1.0, 0.0
    for step in range(10):  # half of a batch of each file; after four steps there are rows of one only
        rows = np.concatenate([part[2 * step : 2 * step + 2, 0] for part in files.values()])
        total += float(np.sum(((kernel - 3) * rows) ** 2))
        kernel -= 0.1 * float(np.mean(2 * (kernel - 3) * rows**2))
    np.testing.assert_allclose(model.get_weights()[0], [[kernel]], rtol=1e-5)
    np.testing.assert_allclose(losses, [total / 28], rtol=1e-5)
