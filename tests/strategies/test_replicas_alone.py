"""What each replica has for itself: batch statistics and dropout equal a plain loop that computes each replica alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras

REPLICAS, ROWS = 3, 4


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5 * REPLICAS * ROWS, 3)).astype(np.float32)
    return x, x.sum(1, keepdims=True)


def test_plain_batch_norm_takes_each_replicas_own_statistics_and_the_mean_of_their_averages() -> None:
    x, y = data()
    strategy = sd.MirroredStrategy(REPLICAS)
    with strategy.scope():
        norm = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3)
        model = keras.Sequential([keras.Input((3,)), norm, keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.05), "mse")
    model.fit(sd.Dataset.from_tensor_slices((x, y)).batch(REPLICAS * ROWS), epochs=1, verbose=0)

    def loss(p: dict[str, Any], x: Any, y: Any) -> Any:
        normal = (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-3) * p["gamma"] + p["beta"]
        return jnp.mean((normal @ p["kernel"] + p["bias"] - y) ** 2)

    p: dict[str, Any] = {"gamma": jnp.ones(3), "beta": jnp.zeros(3), "kernel": jnp.ones((3, 1)), "bias": jnp.zeros(1)}
    means, variances = [np.zeros(3)] * REPLICAS, [np.ones(3)] * REPLICAS
    for step in range(5):
        parts = [slice((step * REPLICAS + r) * ROWS, (step * REPLICAS + r + 1) * ROWS) for r in range(REPLICAS)]
        gradients = [jax.grad(loss)(p, x[rows], y[rows]) for rows in parts]
        p = {name: value - 0.05 * sum(g[name] for g in gradients) / REPLICAS for name, value in p.items()}
        means = [0.9 * own + 0.1 * x[rows].mean(0) for own, rows in zip(means, parts, strict=True)]
        variances = [0.9 * own + 0.1 * x[rows].var(0) for own, rows in zip(variances, parts, strict=True)]
    np.testing.assert_allclose(np.asarray(norm.gamma.numpy()), p["gamma"], rtol=2e-6)
    np.testing.assert_allclose(np.asarray(model.layers[-1].kernel.numpy()), p["kernel"], rtol=2e-6)
    np.testing.assert_allclose(norm.moving_mean.numpy(), np.mean(means, 0), rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(norm.moving_variance.numpy(), np.mean(variances, 0), rtol=2e-6)
    each = strategy.local_results(norm.moving_mean)
    np.testing.assert_allclose(np.asarray(each), means, rtol=2e-6, atol=1e-7)


def test_each_replica_drops_other_units_and_the_same_in_every_run() -> None:
    def masks() -> list[np.ndarray]:
        strategy = sd.MirroredStrategy(REPLICAS)
        with strategy.scope():
            dropout = keras.layers.Dropout(0.5, seed=1)
        step = sd.function(lambda x: strategy.run(lambda own: dropout(own, training=True), args=(x,)))
        ones = sd.PerReplica([np.ones((4, 16), np.float32)] * REPLICAS)
        return [np.asarray(mask) for _ in range(2) for mask in strategy.local_results(step(ones))]

    found = masks()
    assert len({mask.tobytes() for mask in found}) == 2 * REPLICAS
    assert all(set(np.unique(mask)) <= {0.0, 2.0} for mask in found)
    assert [mask.tobytes() for mask in masks()] == [mask.tobytes() for mask in found]


def test_training_with_dropout_equals_a_loop_over_the_replicas_with_the_same_masks() -> None:
    strategy = sd.MirroredStrategy(REPLICAS)
    with strategy.scope():
        dropout = keras.layers.Dropout(0.5, seed=1)
        kernel = sd.Variable(np.ones((8, 1), np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
    x = np.random.default_rng(1).normal(size=(REPLICAS, 4, 8)).astype(np.float32)

    @sd.function
    def step(x: Any) -> Any:
        def replica(own: Any) -> Any:
            def loss() -> Any:
                masked = dropout(own, training=True)
                return jnp.sum((masked @ kernel.value) ** 2) / (4 * REPLICAS), masked

            (_, masked), gradients = sd.value_and_grad(loss, [kernel], has_aux=True)()
            optimizer.apply_gradients(zip(gradients, [kernel], strict=True))
            return masked

        return strategy.run(replica, args=(x,))

    expected = np.ones((8, 1), np.float64)
    for _ in range(4):
        masked = [np.asarray(own, np.float64) for own in strategy.local_results(step(sd.PerReplica(list(x))))]
        gradient = sum(2 * own.T @ (own @ expected) for own in masked) / (4 * REPLICAS)
        expected = expected - 0.1 * gradient
    np.testing.assert_allclose(kernel.numpy(), expected, rtol=2e-6)


# -- input that takes time ----------------------------------------------------------------------------------------------


def test_a_job_that_is_bound_by_its_input_shows_it() -> None:
    """Elements take 2 s and steps 1 s: with a buffer they overlap, and the slower one decides."""
    options = sd.Options()
    options.seconds_per_element = 2.0
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(0.0, aggregation=sd.VariableAggregation.SUM)
    iterator = iter(strategy.distribute_dataset(sd.Dataset.range(24).batch(4).with_options(options).prefetch(2)))

    @sd.function(seconds=1.0)
    def step(iterator: Any) -> None:
        strategy.run(lambda x: v.assign_add(jnp.sum(x) * 1.0), args=(next(iterator),))

    for _ in range(6):
        step(iterator)
    waits = [span for span in cluster.trace.spans if span.category == "input"]
    assert {span.lane for span in waits} == {"worker:0", "worker:1"}
    assert cluster.now == pytest.approx(6 * 2.0 + 1.0, rel=1e-3)
    assert float(v.numpy()) == sum(range(24))


def test_a_replica_without_rows_leaves_statistics_and_gradients_alone() -> None:
    x = np.random.default_rng(0).random((14, 3), np.float32)
    strategy = sd.MirroredStrategy(3)
    with strategy.scope():
        norm = keras.layers.BatchNormalization()
        model = keras.Sequential([keras.Input((3,)), norm, keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.01), "mse")
    # The last batch has two rows, for three replicas.
    history = model.fit(sd.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(12), epochs=3, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert np.isfinite(np.concatenate([np.ravel(weight) for weight in model.get_weights()])).all()
    assert all(np.isfinite(np.asarray(own)).all() for own in strategy.local_results(norm.moving_variance))


def test_synchronised_statistics_are_those_of_one_device_though_a_replica_has_no_rows() -> None:
    x = np.random.default_rng(0).random((14, 3), np.float32)

    def moving(strategy: Any) -> list[np.ndarray]:
        with strategy.scope():
            norm = keras.layers.BatchNormalization(synchronized=True, momentum=0.5)
            model = keras.Sequential([keras.Input((3,)), norm, keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(keras.optimizers.SGD(0.01), "mse")
        model.fit(sd.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(12), epochs=3, verbose=0)
        return [norm.moving_mean.numpy(), norm.moving_variance.numpy()]

    for own, other in zip(moving(sd.MirroredStrategy(3)), moving(sd.OneDeviceStrategy()), strict=True):
        np.testing.assert_allclose(own, other, rtol=5e-6)
