"""`fit` under strategies equals plain Keras on JAX, step by step; mains that run side by side equal mains that run alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras as plain_keras
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

X = np.random.default_rng(0).random((50, 8), np.float32)
Y = np.random.default_rng(1).random((50, 1), np.float32)
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "clipped": lambda: keras.optimizers.SGD(0.5, global_clipnorm=0.1),
}


def compiled(namespace: Any, optimizer: str) -> Any:
    dense, uniform = keras.layers.Dense, keras.initializers.GlorotUniform
    model = namespace.Sequential(
        [keras.Input((8,)), dense(16, "relu", kernel_initializer=uniform(1)), dense(1, kernel_initializer=uniform(2))]
    )
    model.compile(OPTIMIZERS[optimizer](), "mse", metrics=["mae"])
    return model


def history(model: Any) -> dict[str, list[float]]:
    """Five epochs of four batches, the last of two examples."""
    return model.fit(X, Y, batch_size=16, epochs=5, shuffle=False, verbose=0).history


@functools.cache  # what all numbers of replicas are compared with
def plain_history(optimizer: str) -> dict[str, list[float]]:
    return history(compiled(plain_keras, optimizer))


SAMPLE = {(3, "adam"), (4, "clipped")}  # what CI tries


@pytest.mark.parametrize(
    ("replicas", "optimizer"),
    sampled([(replicas, optimizer) for replicas in (1, 2, 3, 4) for optimizer in OPTIMIZERS], SAMPLE),
)
def test_losses_equal_those_of_plain_keras_uneven_last_batch_included(replicas: int, optimizer: str) -> None:
    strategy = sd.MirroredStrategy(replicas)
    with strategy.scope():
        model = compiled(keras, optimizer)
    expected = plain_history(optimizer)
    found = history(model)
    assert found["loss"] == pytest.approx(expected["loss"], rel=2e-6)
    assert found["mae"] == pytest.approx(expected["mae"], rel=2e-6)
    assert int(model.optimizer.iterations.value) == 20


def test_one_device_gives_the_bits_of_plain_keras_up_to_fused_arithmetic() -> None:
    with sd.OneDeviceStrategy().scope():
        model = compiled(keras, "sgd")
    assert history(model)["loss"] == pytest.approx(plain_history("sgd")["loss"], rel=1e-6)


def test_one_worker_and_one_server_equal_plain_keras() -> None:
    with sd.Cluster({"worker": 1, "ps": 2}) as cluster:
        with sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2)).scope():
            model = compiled(keras, "adam")
        dataset = sd.Dataset.from_tensor_slices((X, Y)).batch(10)
        found = model.fit(dataset, epochs=4, steps_per_epoch=5, verbose=0).history
    expected = compiled(plain_keras, "adam").fit(X, Y, batch_size=10, epochs=4, shuffle=False, verbose=0).history
    assert found["loss"] == pytest.approx(expected["loss"], rel=2e-6)


def test_evaluate_and_predict_agree_with_plain_keras() -> None:
    with sd.MirroredStrategy(2).scope():
        model = compiled(keras, "sgd")
    history(model)
    plain = compiled(plain_keras, "sgd")
    plain.set_weights(model.get_weights())
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(plain.evaluate(X, Y, verbose=0), rel=1e-6)
    assert model.predict(X[:5]) == pytest.approx(plain.predict(X[:5], verbose=0), rel=1e-5)


def test_weights_that_were_just_set_can_be_used_at_once() -> None:
    with sd.OneDeviceStrategy().scope():
        model = compiled(keras, "sgd")
    plain = compiled(plain_keras, "sgd")
    new = [np.full(tuple(weight.shape), 0.1, np.float32) for weight in plain.weights]
    plain.set_weights(new)
    model.set_weights(new)
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(plain.evaluate(X, Y, verbose=0), rel=1e-6)
    model.set_weights(new)
    assert history(model)["loss"] == pytest.approx(history(plain)["loss"], rel=1e-6)


def main() -> tuple[list[str], list[float], bytes]:
    with sd.OneDeviceStrategy().scope():
        layers = [keras.Input((8,)), keras.layers.Dense(3), keras.layers.Dropout(0.3), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        model.compile("adam", "mse")
    losses = model.fit(X, Y, batch_size=10, epochs=2, verbose=0).history["loss"]
    return [layer.name for layer in model.layers], losses, model.get_weights()[0].tobytes()


def test_two_mains_side_by_side_give_what_each_gives_alone() -> None:
    def launched(only: int | None) -> dict[str, Any]:
        with sd.Cluster({"worker": 2}, seed=3) as cluster:

            def chosen() -> Any:
                index = sd.TFConfigClusterResolver().task_id
                return main() if only is None or index == only else None

            run = cluster.launch(chosen)
            run.join()
            return run.results

    together = launched(None)
    assert launched(0)["worker:0"] == together["worker:0"]
    assert launched(1)["worker:1"] == together["worker:1"]
    assert together["worker:0"][1] != together["worker:1"][1]


def test_more_workers_than_batches_share_them() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}))
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    x = np.ones((8, 2), np.float32)
    history = model.fit(sd.Dataset.from_tensor_slices((x, x[:, :1])).batch(4).repeat(), steps_per_epoch=6, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
