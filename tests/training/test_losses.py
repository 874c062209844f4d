"""Losses of `fit` and of a step of one's own are those of plain Keras on one device with the global batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import LossSumWarning

rng = np.random.default_rng(0)
X = rng.random((10, 6), np.float32)
Y = (X @ rng.random((6, 1))).astype(np.float32)
TEXT = np.array([[1, 2, 3], [2, 0, 0], [3, 3, 0], [1, 0, 0], [2, 1, 3], [3, 0, 0], [1, 1, 0], [2, 2, 2], [3, 1, 0], [0, 0, 0]], np.int32)
TAGS = rng.random((10, 3, 1)).astype(np.float32)
WEIGHTS = rng.random(10).astype(np.float32)


def servers() -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "two replicas": lambda: sd.MirroredStrategy(2),
    "three replicas": lambda: sd.MirroredStrategy(3),
    "parameter servers": servers,
}
REPLICAS = ("two replicas", "three replicas")


def require_those_of_keras(make: Callable[[Any], Any], strategy: str, *data: Any, **options: Any) -> None:
    """Two epochs of three batches, the last of two rows: of three replicas one has none."""
    dataset = sd.Dataset.from_tensor_slices(data).batch(4)
    expected = make(plain)
    history = expected.fit(*data[:2], batch_size=4, epochs=2, shuffle=False, verbose=0, **options).history
    with STRATEGIES[strategy]().scope():
        model = make(keras)
    found = model.fit(dataset, epochs=2, steps_per_epoch=3, verbose=0).history
    assert set(found) == set(history)
    for name, values in history.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-5, err_msg=name)
    for own, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(own.value, other.value, rtol=1e-4, atol=1e-6)


class Divergence(plain.layers.Layer):
    def call(self, x: Any) -> Any:
        self.add_loss(plain.ops.mean(x**2))
        return x


def with_added_losses(namespace: Any) -> Any:
    layers = plain.layers
    first = layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(1), activity_regularizer="l2", kernel_regularizer="l2")
    last = layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(2))
    model = namespace.Sequential([plain.Input((6,)), first, Divergence(), layers.ActivityRegularization(0.1), last])
    model.compile(plain.optimizers.SGD(0.1), "mse")
    return model


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["three replicas", "parameter servers"]))
def test_losses_that_layers_add_are_trained_on(strategy: str) -> None:
    require_those_of_keras(with_added_losses, strategy, X, Y)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_of_ones_own_sees_the_losses_that_layers_add(replicas: int) -> None:
    strategy = sd.MirroredStrategy(replicas)
    with strategy.scope():
        model = with_added_losses(keras)

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(data: Any) -> Any:
            def loss() -> Any:
                model(data[0])
                return jnp.asarray(sum(model.losses)) / replicas

            return sd.value_and_grad(loss, model.trainable_variables)()[0]

        return strategy.reduce("sum", strategy.run(replica, (next(iterator),)), axis=None)

    found = step(iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices((X, Y)).batch(10))))
    expected = with_added_losses(plain)
    expected(X)
    assert float(found) == pytest.approx(float(sum(expected.losses)), rel=1e-5)


def tagger(namespace: Any) -> Any:
    start = keras.initializers.GlorotUniform
    words = plain.layers.Embedding(4, 2, mask_zero=True, embeddings_initializer=start(1))
    recurrent = plain.layers.SimpleRNN(2, return_sequences=True, kernel_initializer=start(2), recurrent_initializer=start(3))
    model = namespace.Sequential([plain.Input((3,), dtype="int32"), words, recurrent, plain.layers.Dense(1, kernel_initializer=start(4))])
    model.compile(plain.optimizers.SGD(0.1), "mse")
    return model


@pytest.mark.parametrize("strategy", sampled(REPLICAS, ["three replicas"]))
def test_a_loss_with_a_mask_is_the_mean_over_the_valid_steps_of_the_global_batch(strategy: str) -> None:
    require_those_of_keras(tagger, strategy, TEXT, TAGS)


def weighted(namespace: Any) -> Any:
    model = namespace.Sequential([plain.Input((6,)), plain.layers.Dense(1, kernel_initializer="ones")])
    model.compile(plain.optimizers.SGD(0.1), plain.losses.MeanSquaredError(reduction="mean_with_sample_weight"))
    return model


@pytest.mark.parametrize("strategy", sampled(REPLICAS, ["three replicas"]))
def test_a_mean_by_sample_weight_divides_by_the_weights_of_the_global_batch(strategy: str) -> None:
    require_those_of_keras(weighted, strategy, X, Y, WEIGHTS, sample_weight=WEIGHTS)


def classifier(namespace: Any) -> Any:
    model = namespace.Sequential([plain.Input((6,)), plain.layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(1))])
    loss = plain.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(plain.optimizers.SGD(0.1), loss)
    return model


@pytest.mark.parametrize("strategy", sampled(REPLICAS, ["two replicas", "three replicas"]))
def test_a_loss_that_leaves_out_a_class_is_the_mean_over_the_other_rows_of_the_global_batch(strategy: str) -> None:
    require_those_of_keras(classifier, strategy, X, np.arange(len(X), dtype="int32") % 3)


def mixed(namespace: Any) -> Any:
    """Two outputs, of which one has a mask and the other adds up its rows."""
    words = plain.Input((3,), dtype="int32")
    vectors = plain.layers.Embedding(4, 2, mask_zero=True, embeddings_initializer=keras.initializers.GlorotUniform(1))(words)
    tags = plain.layers.Dense(1, kernel_initializer="ones", name="tags")(vectors)
    first = plain.layers.Flatten()(plain.layers.Embedding(4, 2, embeddings_initializer="ones")(words))
    start = plain.layers.Dense(1, kernel_initializer="ones", kernel_regularizer="l2", name="start")(first)
    model = namespace.Model(words, [tags, start])
    model.compile(plain.optimizers.SGD(0.01), ["mse", plain.losses.MeanSquaredError(reduction="sum")], loss_weights=[2.0, 0.5])
    return model


@pytest.mark.parametrize("strategy", sampled(REPLICAS, ["two replicas"]))
def test_sums_and_masked_means_stand_side_by_side(strategy: str) -> None:
    require_those_of_keras(mixed, strategy, TEXT, (TAGS, TAGS[:, 0]))


# -- losses that are sums ----------------------------------------------------------------------------------------------

SQUARES = plain.losses.MeanSquaredError(reduction="sum")


def num_rows(array: Any) -> Any:
    return plain.ops.cast(plain.ops.shape(array)[0], "float32")


def sum_of_squares(y: Any, p: Any) -> Any:
    return plain.ops.sum((y - p) ** 2) / 10.0


class Halved(plain.losses.MeanSquaredError):
    """A sum of which a subclass makes something else."""

    def __call__(self, y: Any, p: Any, sample_weight: Any = None) -> Any:
        return super().__call__(y, p, sample_weight) / 2.0


class MeanInASum(plain.losses.Loss):
    """Each row gives its share of the mean, and these are summed."""

    def call(self, y: Any, p: Any) -> Any:
        return (y - p)[:, 0] ** 2 / num_rows(y)


LOSSES: dict[str, Callable[[], Any]] = {
    "a function that is a sum": lambda: sum_of_squares,
    "a sum by a loss inside of a function": lambda: lambda y, p: SQUARES(y, p) / 10.0,
    "a mean by a sum": lambda: lambda y, p: SQUARES(y, p) / num_rows(y),
    "a subclass of a sum": lambda: Halved(reduction="sum"),
    "a sum that is a mean": lambda: MeanInASum(reduction="sum"),
    "a function of rows": lambda: lambda y, p: (y - p) ** 2,
    "a mean of a mean": lambda: lambda y, p: 2 * plain.losses.MeanSquaredError()(y, p),
    "labels": lambda: lambda y, p: plain.ops.sum(plain.ops.cast(y > 1, "float32") * p),
}


class Summed(plain.metrics.Metric):
    """Adds up a loss whose reduction is a sum."""

    def __init__(self) -> None:
        super().__init__(name="summed")
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y: Any, p: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(SQUARES(y, p))

    def result(self) -> Any:
        return self.total + 0.0


class Penalty(plain.layers.Layer):
    """Adds a mean that is a sum over the rows, divided by their number."""

    def call(self, x: Any) -> Any:
        self.add_loss(SQUARES(plain.ops.zeros_like(x), x) / num_rows(x))
        return x


def of_loss(loss: Any, namespace: Any) -> Any:
    model = namespace.Sequential([plain.Input((6,)), Penalty(), plain.layers.Dense(1, kernel_initializer="ones")])
    model.compile(plain.optimizers.SGD(0.01), loss, metrics=[Summed()])
    return model


@pytest.mark.parametrize(
    ("name", "strategy"),
    sampled([(name, strategy) for name in LOSSES for strategy in REPLICAS], {(name, "three replicas") for name in LOSSES}),
)
def test_a_loss_is_tried_to_see_whether_it_is_a_sum_over_rows(name: str, strategy: str) -> None:
    loss = LOSSES[name]()
    require_those_of_keras(lambda namespace: of_loss(loss, namespace), strategy, X, Y)


def test_evaluate_gives_the_losses_and_metrics_of_one_device() -> None:
    expected = of_loss(sum_of_squares, plain).evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
    with sd.MirroredStrategy(2).scope():
        model = of_loss(sum_of_squares, keras)
    found = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_reads_variables_is_a_mean_unless_its_reduction_says_otherwise() -> None:
    def make(namespace: Any) -> Any:
        scale = plain.Variable(0.5, trainable=False, name="scale")
        model = namespace.Sequential([plain.Input((6,)), plain.layers.Dense(1, kernel_initializer="ones")])
        model.compile(plain.optimizers.SGD(0.01), lambda y, p: plain.ops.mean((y - p) ** 2) * scale)
        return model

    require_those_of_keras(make, "two replicas", X, Y)


@pytest.mark.parametrize("where", ["compute_loss", "train_step"])
def test_a_sum_in_code_of_ones_own_is_reported(where: str) -> None:
    def compute_loss(self: Any, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True) -> Any:
        return SQUARES(y, y_pred) / num_rows(y)

    def train_step(self: Any, state: Any, data: Any) -> Any:
        SQUARES(data[1], data[1])
        return keras.Model.train_step(self, state, data)

    own = type("Own", (keras.Sequential,), {where: {"compute_loss": compute_loss, "train_step": train_step}[where]})

    def fitted(make: Any, scope: Any) -> list[float]:
        with scope:
            model = make([plain.Input((6,)), plain.layers.Dense(1, kernel_initializer="ones")])
            model.compile(plain.optimizers.SGD(0.01), "mse")
        losses: list[float] = model.fit(X, Y, batch_size=5, epochs=2, shuffle=False, verbose=0).history["loss"]
        return losses

    expected = fitted(keras.Sequential, sd.OneDeviceStrategy().scope())
    with pytest.warns(LossSumWarning, match="divide it by keras.ops.shape"):
        found = fitted(own, sd.MirroredStrategy(2).scope())
    np.testing.assert_allclose(found, expected, rtol=1e-5)


WEIGHED = plain.losses.MeanSquaredError(reduction="mean_with_sample_weight")


def with_a_loss_of_ones_own(namespace: Any, kind: str) -> Any:
    """The compiled loss says nothing of what the step computes."""

    def by_size(y: Any, y_pred: Any) -> Any:
        return WEIGHED(y, y_pred, sample_weight=1.0 + y[:, 0])

    def of_the_largest(self: Any, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **_: Any) -> Any:
        float(max(y_pred.shape[0] - 1, 0) // y_pred.shape[0])  # fails of no rows, and needs no other replica
        return plain.ops.mean((y - y_pred) ** 2)

    def compute_loss(self: Any, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **_: Any) -> Any:
        return by_size(y, y_pred)

    own = {"method": compute_loss, "method that fails of no rows": of_the_largest}
    bases = {"compute_loss": own[kind]} if kind in own else {}
    model = type("Own", (namespace.Sequential,), bases)([plain.Input((6,)), plain.layers.Dense(1, kernel_initializer="ones")])
    model.compile(plain.optimizers.SGD(0.01), by_size if kind == "function" else "mse")
    return model


@pytest.mark.sample
@pytest.mark.parametrize("kind", ["method", "function", "method that fails of no rows"])
@pytest.mark.parametrize("strategy", REPLICAS)
def test_a_loss_of_ones_own_may_have_denominators_of_the_global_batch(strategy: str, kind: str) -> None:
    require_those_of_keras(lambda namespace: with_a_loss_of_ones_own(namespace, kind), strategy, X, Y)


def test_replicas_that_a_step_waits_for_stand_for_the_others_in_denominators() -> None:
    def fitted(reduction: str) -> list[Any]:
        cluster = sd.Cluster({"worker": 3})
        cluster.faults.slow("worker:2", factor=50.0, at=0.0)
        with sd.MultiWorkerMirroredStrategy(cluster, backup_workers=1).scope():
            model = keras.Sequential([plain.Input((6,)), plain.layers.Dense(1, kernel_initializer="ones")])
            model.compile(plain.optimizers.SGD(0.01), plain.losses.MeanSquaredError(reduction=reduction))
        losses = model.fit(X[:9], Y[:9], sample_weight=np.ones(9), batch_size=9, verbose=0).history["loss"]
        return [losses, *map(np.asarray, model.get_weights())]

    for found, expected in zip(fitted("mean_with_sample_weight"), fitted("sum_over_batch_size"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
