"""Conformance cases B132 to B140 and B244: losses, metrics and Keras' fit are those of one device with the global batch.

Where TensorFlow's answer for an uneven last batch is wrong (B138), the exact one is expected. With weight w = 0, x = 1 and
targets y, one step of SGD with rate 0.1 on the mean of (w - y)^2 gives w = 0.2 * mean(y).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from replicas import each
from sampling import sampled
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError

Run = Callable[..., Any]
LOSSES = jnp.array([1.0, 2.0, 3.0, 4.0])
MANY: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "two": lambda: sd.MirroredStrategy(2),
    "three": lambda: sd.MirroredStrategy(3),
    "four, packed": lambda: sd.MirroredStrategy(4, cross_device_ops=sd.HierarchicalCopyAllReduce(num_packs=2)),
    "central": lambda: sd.CentralStorageStrategy(2),
    "two workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
}


@pytest.fixture(params=list(MANY))
def strategy(request: pytest.FixtureRequest) -> Any:
    return MANY[request.param]()


# -- compute_average_loss -----------------------------------------------------------------------------------------------


def test_b132_average_over_the_global_batch(two: Any, run: Run) -> None:
    assert float(sd.compute_average_loss(LOSSES)) == 2.5
    assert float(sd.compute_average_loss(LOSSES, global_batch_size=8)) == 1.25
    assert float(sd.compute_average_loss(LOSSES, global_batch_size=np.int64(8))) == 1.25  # pyright: ignore
    assert each(two, run(two, lambda: sd.compute_average_loss(LOSSES))) == [1.25, 1.25]
    weights = jnp.array([1.0, 0.0, 1.0, 0.0])
    assert each(two, run(two, lambda: sd.compute_average_loss(LOSSES, weights, global_batch_size=4))) == [1.0, 1.0]


def test_b132_whole_numbers_and_losses_with_several_axes(two: Any, run: Run) -> None:
    assert each(two, run(two, lambda: sd.compute_average_loss(jnp.array([1, 2, 3])))) == [1.0, 1.0]
    # Each example has a weight; its losses are added.
    square = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    assert each(two, run(two, lambda: sd.compute_average_loss(square, jnp.array([1.0, 0.0]), global_batch_size=2))) == [1.5, 1.5]


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_b132_a_column_of_weights_is_one_weight_for_each_example(two: Any, shape: tuple[int, ...]) -> None:
    with two.scope():
        variable = sd.Variable(1.0)
    weights = np.array([1.0, 0.0, 2.0, 0.0], np.float32).reshape(shape)
    data = two.distribute_dataset(sd.Dataset.from_tensor_slices((np.asarray(LOSSES), weights)).batch(4))

    def replica(losses: Any, weights: Any) -> Any:
        loss = sd.value_and_grad(lambda: sd.compute_average_loss(variable.value * losses, sample_weight=weights), [variable])
        value, gradients = loss()
        return value, gradients[0]

    found = [two.reduce("sum", two.run(replica, args=batch), axis=None) for batch in data]
    assert [list(map(float, one)) for one in found] == [[1.75, 1.75]]  # (1 + 2 * 3) / 4, which is its derivative, too


def test_b132_weights_of_losses_with_several_axes() -> None:
    losses = jnp.arange(12.0).reshape(4, 3)
    of_each = jnp.arange(12.0).reshape(4, 3) % 5
    cases = [(of_each, of_each), (of_each[..., None], of_each), (of_each[:, :1], of_each[:, :1]), (of_each[:, 0], of_each[:, :1]), (2.0, 2)]
    for weights, expected in cases:
        np.testing.assert_allclose(float(sd.compute_average_loss(losses, weights)), np.sum(losses * expected) / 4, rtol=1e-6)


@pytest.mark.parametrize(
    ("losses", "weights"),
    [((4,), (4, 4)), ((4,), (1, 4)), ((1,), (4,)), ((4,), (3,)), ((4,), (4, 1, 1)), ((4, 3), (4, 3, 2)), ((4, 1), (4, 3))],
)
def test_b132_weights_that_do_not_fit_are_refused(losses: tuple[int, ...], weights: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"sample_weight has shape \({weights[0]}.*losses have shape"):
        sd.compute_average_loss(jnp.ones(losses), jnp.ones(weights))


def test_b133_senseless_arguments_raise(two: Any, run: Run) -> None:
    cases: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: sd.compute_average_loss(jnp.ones(())), InvalidArgumentError),
        (lambda: sd.compute_average_loss(LOSSES, global_batch_size=2.5), TypeError),  # pyright: ignore
        (lambda: sd.compute_average_loss(LOSSES, global_batch_size=True), TypeError),
        (lambda: sd.compute_average_loss(LOSSES, global_batch_size=-1), InvalidArgumentError),
    ]
    for call, error in cases:
        with pytest.raises(error):
            call()
        with pytest.raises(error):
            run(two, call)


def test_b133_nothing_to_average_is_zero(two: Any, run: Run) -> None:
    assert each(two, run(two, lambda: sd.compute_average_loss(LOSSES, global_batch_size=0))) == [0.0, 0.0]
    assert each(two, run(two, lambda: sd.compute_average_loss(LOSSES[:0]))) == [0.0, 0.0]


@pytest.mark.parametrize(("masks", "expected"), [(([1.0, 1.0, 0.0], [1.0, 0.0, 0.0]), 4.0), (([0.0] * 3, [0.0] * 3), 0.0)])
def test_b133_a_size_may_be_an_array_of_the_step(two: Any, masks: Any, expected: float) -> None:
    def replica(mask: Any) -> Any:
        context = sd.get_replica_context()
        assert context is not None
        valid = context.all_reduce("sum", mask.sum().astype("int32"))
        return sd.compute_average_loss(jnp.array([3.0, 6.0, 9.0]), sample_weight=mask, global_batch_size=valid)

    mask = sd.PerReplica([jnp.array(of_one) for of_one in masks])
    for step in (lambda: two.run(replica, args=(mask,)), sd.function(lambda: two.run(replica, args=(mask,)))):
        assert float(two.reduce("sum", step(), axis=None)) == expected


def test_b133_a_size_may_be_a_variable(two: Any, run: Run) -> None:
    with two.scope():
        size = sd.Variable(8, dtype="int32", trainable=False)
    assert float(sd.compute_average_loss(LOSSES, global_batch_size=size)) == 1.25
    assert each(two, run(two, lambda: sd.compute_average_loss(LOSSES, global_batch_size=size))) == [1.25, 1.25]
    size.assign(0)
    assert each(two, run(two, lambda: sd.compute_average_loss(LOSSES, global_batch_size=size))) == [0.0, 0.0]


@pytest.mark.parametrize("size", [jnp.array(-1), jnp.array([4]), np.array([4])])
def test_b133_arrays_that_are_no_sizes_are_refused(size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="global_batch_size"):
        sd.compute_average_loss(LOSSES, global_batch_size=size)


def test_b133_losses_belong_to_replicas(two: Any, run: Run) -> None:
    assert each(two, run(two, lambda: sd.scale_regularization_loss(6.0))) == [3.0, 3.0]
    with two.scope():
        for call in (lambda: sd.compute_average_loss(LOSSES), lambda: sd.scale_regularization_loss(6.0)):
            with pytest.raises(FailedPreconditionError, match=r"inside strategy\.run"):
                call()
            with pytest.raises(FailedPreconditionError, match=r"inside strategy\.run"):
                sd.function(call)()


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 30.0), ("none", [1.0, 4.0, 9.0, 16.0])])
def test_b134_keras_losses_in_a_replica(two: Any, run: Run, reduction: str, expected: Any) -> None:
    loss = keras.losses.MeanSquaredError(reduction=reduction)
    value = run(two, lambda: loss(jnp.zeros((4, 1)), LOSSES[:, None]))
    assert each(two, value) == [expected, expected]


def test_b134_means_of_keras_losses_add_up_in_a_loop_of_the_users_own(strategy: Any) -> None:
    with strategy.scope():
        w = sd.Variable(0.0)
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
    means = [keras.losses.MeanSquaredError(reduction=name) for name in ("sum_over_batch_size", "mean", "mean_with_sample_weight")]

    def replica(y: Any) -> Any:
        losses, gradients = sd.value_and_grad(lambda: sum(mean(y, w * jnp.ones_like(y), jnp.ones(len(y))) for mean in means) / 3, [w])()
        optimizer.apply_gradients(zip(gradients, [w], strict=True))
        return losses, means[0](y, jnp.zeros_like(y))

    y = np.arange(48.0, dtype=np.float32)[:, None]
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(y).batch(48)))
    step = sd.function(lambda iterator: strategy.run(replica, args=(next(iterator),)))
    loss, own = step(iterator)
    mean = float((y**2).mean())
    assert float(strategy.reduce("sum", loss, axis=None)) == pytest.approx(mean, rel=1e-5)
    assert float(strategy.reduce("mean", own, axis=None)) == pytest.approx(mean, rel=1e-5)  # outside of the loss it is as it is
    assert w.numpy() == pytest.approx(0.2 * y.mean(), rel=1e-5)


class Penalized(keras.layers.Layer):
    """Gives the mean of a loss of Keras to `add_loss`."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(keras.losses.MeanSquaredError()(inputs, keras.ops.zeros_like(inputs)))
        return inputs


def test_b134_a_loss_of_keras_that_a_layer_adds_is_weighed_by_fit_alone(two: Any) -> None:
    with two.scope():
        model = keras.Sequential([keras.Input((1,)), Penalized(), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.0), "mse")
    ones = np.ones((4, 1), np.float32)
    assert model.fit(ones, ones, batch_size=4, verbose=0).history["loss"] == [pytest.approx(2.0, rel=1e-5)]


# -- metrics ------------------------------------------------------------------------------------------------------------


def test_b136_metrics_are_summed_when_they_are_read(two: Any, run: Run) -> None:
    with two.scope():
        accuracy, mean = keras.metrics.Accuracy(), keras.metrics.Mean()

    def replica(predictions: Any, value: Any) -> None:
        accuracy.update_state(jnp.array([0, 1]), predictions)
        mean.update_state(value)

    args = (sd.PerReplica([jnp.array([0, 1]), jnp.array([1, 1])]), sd.PerReplica([jnp.asarray(1.0), jnp.asarray(11.0)]))
    run(two, replica, args)
    assert (float(accuracy.result()), float(accuracy.total.value), float(accuracy.count.value)) == (0.75, 3.0, 4.0)
    assert each(two, accuracy.total) == [2.0, 1.0]
    assert float(mean.result()) == 6.0
    assert float(sd.function(lambda: mean.result())()) == 6.0
    for metric in (accuracy, mean):
        metric.reset_state()
        assert float(metric.result()) == 0.0
    run(two, replica, args)
    assert float(mean.result()) == 6.0


# -- fit ----------------------------------------------------------------------------------------------------------------


def model_of(strategy: Any) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def fitted(strategy: Any, targets: Any, batch_size: int) -> tuple[float, float]:
    """The weight and the loss after one epoch."""
    model = model_of(strategy)
    y = np.asarray(targets, np.float32)[:, None]
    history = model.fit(np.ones_like(y), y, batch_size=batch_size, epochs=1, shuffle=False, verbose=0).history
    return float(model.get_weights()[0][0, 0]), history["loss"][0]


def test_b137_fit_on_replicas_is_fit_on_one_device(strategy: Any) -> None:
    assert fitted(strategy, range(8), 8) == (pytest.approx(0.7, rel=1e-6), pytest.approx(17.5, rel=1e-6))


@pytest.mark.parametrize(("targets", "weight", "loss"), [([0, 1, 2], 0.2, 5 / 3), ([2], 0.4, 4.0)])
@pytest.mark.sample(2)
def test_b138_uneven_last_batch_is_exact(strategy: Any, targets: list[int], weight: float, loss: float) -> None:
    assert fitted(strategy, targets, 8) == (pytest.approx(weight, rel=1e-6), pytest.approx(loss, rel=1e-6))


def test_b138_whole_batches_and_then_an_uneven_one(strategy: Any) -> None:
    """Two batches of eight and one of three, against the same in a plain loop."""
    y = np.arange(19, dtype=np.float64)
    weight = 0.0
    for first in (0, 8, 16):
        weight -= 0.1 * np.mean(2 * (weight - y[first : first + 8]))
    assert fitted(strategy, y, 8)[0] == pytest.approx(weight, rel=1e-6)


def step_of(strategy: Any) -> tuple[Any, Any]:
    """A variable, and the step of a custom loop that trains it on (x, y) with the default size of the global batch."""
    with strategy.scope():
        w = sd.Variable(0.0, name="w")
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    def replica(x: Any, y: Any) -> Any:
        loss, gradients = sd.value_and_grad(lambda: sd.compute_average_loss((w.value * x - y) ** 2), [w])()
        optimizer.apply_gradients(zip(gradients, [w], strict=True))
        return loss

    return w, lambda element: strategy.reduce("SUM", strategy.run(replica, element), axis=None)


UNEVEN, ONE, WHOLE = ([0, 1, 2], 0.2, 5 / 3), ([2], 0.4, 4.0), (list(range(8)), 0.7, 17.5)
GIVEN = [(given, *case) for given in ("iterator", "element") for case in (UNEVEN, ONE, WHOLE)]


@pytest.mark.parametrize(
    ("given", "targets", "weight", "loss"), sampled(GIVEN, [("iterator", *UNEVEN), ("iterator", *ONE), ("element", *WHOLE)])
)
def test_b138_custom_loop_is_exact(strategy: Any, given: str, targets: list[int], weight: float, loss: float) -> None:
    y = np.asarray(targets, np.float32)
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices((np.ones_like(y), y)).batch(8)))
    w, take = step_of(strategy)
    total = sd.function(lambda it: take(next(it)))(iterator) if given == "iterator" else sd.function(take)(next(iterator))
    assert float(total) == pytest.approx(loss, rel=1e-6)
    assert float(w) == pytest.approx(weight, rel=1e-6)


def test_b139_predictions_are_in_the_order_of_the_input(strategy: Any) -> None:
    model = model_of(strategy)
    model.set_weights([np.ones((1, 1), np.float32)])
    x = np.arange(5, dtype=np.float32)[:, None]
    assert model.predict(x, batch_size=2, verbose=0)[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert model.predict(sd.Dataset.from_tensor_slices(x).batch(2), verbose=0)[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("replicas", "rate"), [(1, 0.1), (2, 0.15)])
def test_b140_learning_rate_is_looked_up_by_the_global_batch(replicas: int, rate: float) -> None:
    strategy = sd.MirroredStrategy(replicas)
    global_batch_size = 5 * strategy.num_replicas_in_sync
    dataset = strategy.distribute_dataset(sd.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(global_batch_size))
    with strategy.scope():
        w = sd.Variable(0.0)
        optimizer = sd.Optimizer(keras.optimizers.SGD({5: 0.1, 10: 0.15, 20: 0.175}[global_batch_size]))

    @sd.function
    def step(iterator: Any) -> None:
        def replica(x: Any, y: Any) -> None:
            loss = lambda: sd.compute_average_loss(jnp.sum((w.value * x - y) ** 2, axis=1), global_batch_size=global_batch_size)  # noqa: E731
            optimizer.apply_gradients(zip(sd.value_and_grad(loss, [w])()[1], [w], strict=True))

        strategy.run(replica, next(iterator))

    step(iter(dataset))
    assert float(w) == pytest.approx(2 * rate, rel=1e-6)


def test_b244_mean_over_examples_is_the_loss_of_one_device(strategy: Any) -> None:
    model, y = model_of(strategy), np.arange(7, dtype=np.float32)[:, None]
    dataset = strategy.distribute_dataset(sd.Dataset.from_tensor_slices((np.ones_like(y), y)).batch(7))

    @sd.function
    def step(element: Any) -> Any:
        per_example = strategy.run(lambda x, target: jnp.sum((model(x) - target) ** 2, axis=1), element)
        return strategy.reduce(sd.ReduceOp.MEAN, per_example, axis=0)

    for element in dataset:
        assert float(step(element)) == pytest.approx(13.0, rel=1e-6)
