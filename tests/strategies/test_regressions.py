"""What a model compiled with Keras' less common options must give on several replicas: what plain Keras gives on one device."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import simdist as sd
from simdist import keras as distributed_keras

rng = np.random.default_rng(0)
x = rng.normal(size=(20, 4)).astype(np.float32)
y = x.sum(1, keepdims=True) * 3


def trained(made_by: Any, optimizer: Callable[[], Any], loss: Any = "mse", epochs: int = 2) -> Any:
    layers = [
        keras.layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(seed=1), kernel_regularizer="l2"),
        keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=2)),
    ]
    model = made_by.Sequential([keras.Input((4,)), *layers])
    model.compile(optimizer(), loss)
    history = model.fit(x, y, batch_size=8, shuffle=False, epochs=epochs, verbose=0)
    return history.history["loss"], [np.asarray(weight.value) for weight in model.weights]


def require_those_of_keras(optimizer: Callable[[], Any], loss: Callable[[], Any] = lambda: "mse") -> None:
    expected = trained(keras, optimizer, loss())
    with sd.MirroredStrategy(2).scope():
        found = trained(distributed_keras, optimizer, loss())
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for own, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)


def without_kernels() -> Any:
    optimizer = keras.optimizers.SGD(0.01, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    return optimizer


@pytest.mark.parametrize(
    "optimizer",
    [
        without_kernels,
        lambda: keras.optimizers.SGD(0.05, clipnorm=0.1, gradient_accumulation_steps=2),
        lambda: keras.optimizers.SGD(0.05, global_clipnorm=0.1, loss_scale_factor=4.0),
    ],
    ids=["variables without weight decay", "accumulated gradients are clipped", "scaled loss is clipped unscaled"],
)
def test_options_of_optimizers_are_those_of_keras(optimizer: Callable[[], Any]) -> None:
    require_those_of_keras(optimizer)


def test_a_summed_loss_is_the_sum_over_all_replicas() -> None:
    require_those_of_keras(lambda: keras.optimizers.SGD(0.001), lambda: keras.losses.MeanSquaredError(reduction="sum"))


def test_a_model_that_was_compiled_anew_is_evaluated_with_its_new_loss() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = distributed_keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.evaluate(x, y, verbose=0)
        model.compile("sgd", "mae")
    assert model.evaluate(x, y, verbose=0) == pytest.approx(np.abs(model.predict(x, verbose=0) - y).mean(), rel=1e-5)


def test_layers_that_are_frozen_before_a_model_is_compiled_anew_stay_as_they_are() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = distributed_keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(x, y, batch_size=10, verbose=0)
    frozen, trained = (np.asarray(layer.kernel.value) for layer in model.layers)
    model.layers[0].trainable = False
    with strategy.scope():
        model.compile(model.optimizer, "mse")
    model.fit(x, y, batch_size=10, verbose=0)
    np.testing.assert_array_equal(model.layers[0].kernel.value, frozen)
    assert np.abs(np.asarray(model.layers[1].kernel.value) - trained).max() > 1e-3


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2), lambda: sd.CentralStorageStrategy(2)])
def test_two_optimizers_change_the_same_variable_in_one_step(make: Callable[[], Any]) -> None:
    strategy = make()
    with strategy.scope():
        v, w = sd.Variable([1.0, 2.0], name="v"), sd.Variable([4.0], name="w")
        heavy, plain = sd.Optimizer(keras.optimizers.SGD(0.5, momentum=0.5)), sd.Optimizer(keras.optimizers.SGD(0.25))

    def replica() -> None:
        share = 1.0 / strategy.num_replicas_in_sync
        heavy.apply_gradients([(jnp.ones(2) * share, v), (jnp.ones(1) * share, w)])
        plain.apply_gradients([(jnp.ones(2) * share, v)])

    @sd.function
    def step() -> None:
        strategy.run(replica)

    with strategy.scope():
        step()
        step()
    # Momentum moves by 0.5, then by 0.75; plain steps by 0.25 each.
    np.testing.assert_allclose(v.numpy(), [1.0 - 1.75, 2.0 - 1.75], rtol=1e-6)
    np.testing.assert_allclose(w.numpy(), [4.0 - 1.25], rtol=1e-6)


def test_steps_with_fewer_gradients_go_on_with_the_same_slots_and_count_of_steps() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v, w = sd.Variable([1.0], name="v"), sd.Variable([1.0], name="w")
        wrapped = keras.optimizers.SGD(0.5, momentum=0.5)
        optimizer = sd.Optimizer(wrapped)
    half = jnp.ones(1) / 2

    @sd.function
    def both() -> None:
        strategy.run(lambda: optimizer.apply_gradients([(half, v), (half, w)]))

    @sd.function
    def only_v() -> None:
        strategy.run(lambda: optimizer.apply_gradients([(half, v), (None, w)]))

    with strategy.scope():
        both()
        only_v()
        both()
    # Velocities of v: 0.5, 0.75, 0.875; those of w: 0.5, 0.75.
    assert (float(v.numpy()[0]), float(w.numpy()[0]), int(wrapped.iterations)) == (1.0 - 2.125, 1.0 - 1.25, 3)


def test_a_step_that_is_called_outside_of_its_scope_is_not_kept_for_ever() -> None:
    def once() -> list[Any]:
        strategy = sd.MirroredStrategy(2)
        with strategy.scope():
            v = sd.Variable(0.0, aggregation=sd.VariableAggregation.SUM)
        step = sd.function(lambda: strategy.run(lambda: v.assign_add(v.value * 0 + 1.0)))
        step()
        assert float(v) == 2.0
        return [weakref.ref(strategy), weakref.ref(strategy.cluster), weakref.ref(step)]

    found = [reference for _ in range(3) for reference in once()]
    gc.collect()
    assert [reference() for reference in found if reference() is not None] == []
