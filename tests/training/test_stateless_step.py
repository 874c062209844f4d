"""A train_step of the user's own, in Keras' stateless form for JAX, gives the losses and weights of plain Keras."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((20, 4), np.float32)
Y = 3 * X.sum(1, keepdims=True) + 1  # away from what the weights give at first
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "three replicas": lambda: sd.MirroredStrategy(3),
    "central storage": lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"]),
    "one worker": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
}


def layers() -> list[Any]:
    return [
        keras.layers.Dense(3, "tanh", kernel_initializer=keras.initializers.GlorotUniform(seed=1)),
        keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=2)),
    ]


def manual(namespace: Any) -> Any:
    """Gradients by hand, an update by the optimizer, metrics of its own."""

    class Manual(namespace.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layers()
            self.tracker = keras.metrics.Mean(name="loss")

        @property
        def metrics(self) -> Any:
            return [self.tracker]

        def call(self, x: Any, training: bool = False) -> Any:
            return self.second(self.first(x))

        def loss_of(self, trained: Any, others: Any, x: Any, y: Any) -> Any:
            y_pred, others = self.stateless_call(trained, others, x, training=True)
            return keras.ops.mean((y_pred - y) ** 2), others

        def train_step(self, state: Any, data: Any) -> Any:
            trained, others, slots, metrics = state
            x, y = data
            (loss, others), gradients = jax.value_and_grad(self.loss_of, has_aux=True)(trained, others, x, y)
            trained, slots = self.optimizer.stateless_apply(slots, gradients, trained)
            metrics = self.tracker.stateless_update_state(metrics, loss, sample_weight=x.shape[0])
            return {"loss": self.tracker.stateless_result(metrics)}, (trained, others, slots, metrics)

    return Manual()


def clipped(namespace: Any) -> Any:
    """As Keras, and then weights are kept between bounds, as in a Wasserstein GAN."""

    class Clipped(namespace.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            logs, (trained, *rest) = super().train_step(state, data)
            return logs, ([keras.ops.clip(value, -0.4, 0.4) for value in trained], *rest)

    return Clipped([keras.Input((4,)), *layers()])


def other_logs(namespace: Any) -> Any:
    """Logs that are no metrics: those of the last step."""

    class Other(namespace.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            _, after = super().train_step(state, data)
            return {"weight": keras.ops.sum(after[0][0])}, after

    return Other([keras.Input((4,)), *layers()])


MODELS: dict[str, Callable[[Any], Any]] = {"by hand": manual, "clipped": clipped, "other logs": other_logs}


# What CI tries: every model and every strategy; by hand also the weights that are parts on servers.
SAMPLE = {("three replicas", "by hand"), ("central storage", "clipped"), ("one worker", "other logs")}


@functools.cache  # what all strategies are compared with
def trained_by_keras(model: str) -> tuple[dict[str, Any], list[Any]]:
    made = MODELS[model](plain)
    made.compile(keras.optimizers.Adam(0.05), "mse")
    history = made.fit(X, Y, batch_size=7, epochs=3, shuffle=False, verbose=0).history
    return history, made.get_weights()


@pytest.mark.parametrize(("strategy", "model"), sampled(itertools.product(STRATEGIES, MODELS), SAMPLE))
def test_losses_and_weights_are_those_of_keras(strategy: str, model: str) -> None:
    expected, weights = trained_by_keras(model)
    with STRATEGIES[strategy]().scope():
        made = MODELS[model](keras)
        made.compile(keras.optimizers.Adam(0.05), "mse")
    found = made.fit(X, Y, batch_size=7, epochs=3, shuffle=False, verbose=0).history
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-4)
    for ours, theirs in zip(made.get_weights(), weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)
    assert int(made.optimizer.iterations) == 9


def test_workers_change_the_servers_by_their_gradients_and_count_together() -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=3)
    with sd.ParameterServerStrategy(cluster).scope():
        model = manual(keras)
        model.compile(keras.optimizers.SGD(0.01), "mse")
    history = model.fit(X, Y, batch_size=2, epochs=4, shuffle=False, verbose=0).history
    assert int(model.optimizer.iterations) == 40  # no update is lost, as it would be if workers sent new values
    assert history["loss"][-1] < history["loss"][0]
    assert float(model.tracker.count.numpy()) == len(X)
    kinds = {span.name for span in cluster.trace.spans.where(category="apply")}
    assert kinds, "the servers apply updates"


def test_values_that_a_step_leaves_alone_do_not_travel() -> None:
    def bytes_read(own: bool) -> int:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
        with strategy.scope():
            model = other_logs(keras) if own else keras.Sequential([keras.Input((4,)), *layers()])
            model.compile(keras.optimizers.Adam(0.05), "mse")
        model.fit(X, Y, batch_size=20, epochs=1, verbose=0)
        return sum(record.bytes_read for record in strategy.traffic() if "kernel" not in record.variable or "adam" in record.variable)

    assert bytes_read(True) == bytes_read(False)


def test_a_step_may_use_its_optimizer_as_in_a_loop_of_ones_own() -> None:
    class Applying(keras.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            x, y = data
            trained, others, _, metrics = state
            gradients = jax.grad(lambda values: keras.ops.mean((self.stateless_call(values, others, x)[0] - y) ** 2))(trained)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {}, (*state[:2], [v.value for v in self.optimizer.variables], metrics)

    weights: list[Any] = []
    for devices in (1, 2):
        with sd.MirroredStrategy(devices).scope():
            model = Applying([keras.Input((4,)), *layers()])
            model.compile(keras.optimizers.SGD(0.05), "mse")
        model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        weights.append(model.get_weights()[0])
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5, atol=1e-6)


def test_a_step_of_another_backend_is_refused() -> None:
    class Other(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            return {}

    with sd.OneDeviceStrategy().scope():
        model = Other([keras.Input((4,)), *layers()])
        model.compile("sgd", "mse")
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"train_step\(self, state, data\)"):
        model.fit(X, Y, verbose=0)


def test_values_of_another_number_of_variables_are_refused() -> None:
    class Short(keras.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            trained, _, slots, _ = state
            self.optimizer.stateless_apply(slots, trained[:1], trained[:1])
            return {}, state

    with sd.OneDeviceStrategy().scope():
        model = Short([keras.Input((4,)), *layers()])
        model.compile("sgd", "mse")
    with pytest.raises(sd.errors.InvalidArgumentError, match="1 values of trained variables"):
        model.fit(X, Y, verbose=0)


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["three replicas", "one worker"]))
def test_a_step_on_one_batch_is_that_of_keras(strategy: str) -> None:
    expected = plain.Sequential([keras.Input((4,)), *layers()])
    expected.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    with STRATEGIES[strategy]().scope():
        ours = keras.Sequential([keras.Input((4,)), *layers()])
        ours.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    weight = np.linspace(0, 1, len(X), dtype=np.float32)
    for _ in range(2):
        assert ours.train_on_batch(X, Y) == pytest.approx(expected.train_on_batch(X, Y), rel=1e-5)
    found = ours.train_on_batch(X, Y, weight, return_dict=True)
    assert found == pytest.approx(expected.train_on_batch(X, Y, weight, return_dict=True), rel=1e-5)
    assert int(ours.optimizer.iterations) == 3
    with pytest.raises(sd.errors.InvalidArgumentError, match="arrays of one batch"):
        ours.train_on_batch(sd.Dataset.from_tensor_slices((X, Y)).batch(4))


@pytest.mark.parametrize("replicas", sampled([1, 2, 3], [3]))
def test_a_step_without_an_optimizer_weighs_replicas_by_their_rows(replicas: int) -> None:
    def by_hand(namespace: Any) -> Any:
        class ByHand(namespace.Sequential):
            def train_step(self, state: Any, data: Any) -> Any:
                trained, others, slots, metrics = state
                x, y = data
                gradients = jax.grad(lambda values: keras.ops.mean((self.stateless_call(values, others, x)[0] - y) ** 2))(trained)
                return {}, ([value - 0.05 * gradient for value, gradient in zip(trained, gradients, strict=True)], others, slots, metrics)

        model = ByHand([keras.Input((4,)), *layers()])
        model.compile("sgd", "mse")
        return model

    expected = by_hand(plain)
    with sd.MirroredStrategy(replicas).scope():
        ours = by_hand(keras)
    for model in (ours, expected):
        model.fit(X, Y, batch_size=19, epochs=2, shuffle=False, verbose=0)  # 7, 6 and 6 rows; then one, and two replicas without
    for found, wanted in zip(ours.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("logs", [{"loss": 0.5, "note": "text"}, {"loss": {"a": object()}}, 0.5], ids=["text", "object", "number"])
def test_logs_that_are_no_numbers_are_refused_by_their_name(logs: Any) -> None:
    class Wordy(keras.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            return logs, state

        def test_step(self, state: Any, data: Any) -> Any:
            return logs, state

    with sd.MirroredStrategy(2).scope():
        model = Wordy(layers())
        model.compile("sgd", "mse")
    expected = {"train_step": model.fit, "test_step": model.evaluate}
    for step, method in expected.items():
        with pytest.raises(
            TypeError, match=rf"^{step} returned (logs with .*expected a number|the number 0.5 as its logs|0.5 as its logs)"
        ):
            method(X, Y, verbose=0)
