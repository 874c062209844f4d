"""What programs of Keras use, under strategies: the losses, metrics and weights of plain Keras."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax
import keras as plain
import numpy as np
import pytest

from beside_keras import STRATEGIES, require_those_of_keras, trained
from sampling import sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
rng = np.random.default_rng(0)
X = rng.normal(size=(24, 4)).astype(np.float32)
Y = np.tanh(X.sum(1, keepdims=True))
LABELS = (X.sum(1, keepdims=True) > 0).astype(np.float32)
SERIES = rng.normal(size=(24, 5, 3)).astype(np.float32)


def dense(k: Any, optimizer: Any, **options: Any) -> Any:
    model = k.Sequential([k.Input((4,)), k.layers.Dense(5, "tanh"), k.layers.Dense(1)])
    model.compile(optimizer, "mse", **options)
    return model


def accumulated(k: Any) -> Any:
    return dense(k, k.optimizers.Adam(0.02, gradient_accumulation_steps=2), metrics=["mae"])


def averaged(k: Any) -> Any:
    return dense(k, k.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=4))


def scheduled(k: Any) -> Any:
    return dense(k, k.optimizers.Adam(k.optimizers.schedules.CosineDecay(0.05, 9, warmup_steps=2, warmup_target=0.1)))


def shared(k: Any) -> Any:
    """One tower for two inputs."""
    left, right = k.Input((2,)), k.Input((2,))
    tower = k.Sequential([k.Input((2,)), k.layers.Dense(4, "tanh", kernel_constraint="max_norm")])
    model = k.Model([left, right], k.layers.Dense(1)(k.ops.abs(tower(left) - tower(right))))
    model.compile(k.optimizers.Nadam(0.02), "mae")
    return model


def partly_frozen(k: Any) -> Any:
    model = dense(k, "sgd")
    model.layers[0].trainable = False
    model.compile(k.optimizers.AdamW(0.05, weight_decay=0.1), "mse")
    return model


def unused(k: Any) -> Any:
    """A weight that no output depends on: its gradient is nothing, its decay is something."""

    class Unused(k.layers.Layer):
        def build(self, shape: Any) -> None:
            self.idle = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            return x

    model = k.Sequential([k.Input((4,)), Unused(), k.layers.Dense(1)])
    model.compile(k.optimizers.SGD(0.1, weight_decay=0.01), "mse")
    return model


def recurrent(k: Any) -> Any:
    model = k.Sequential(
        [
            k.Input((5, 3)),
            k.layers.Bidirectional(k.layers.GRU(3, return_sequences=True)),
            k.layers.TimeDistributed(k.layers.Dense(1)),
        ]
    )
    model.compile(k.optimizers.RMSprop(0.01), "mse")
    return model


def judged(k: Any) -> Any:
    """Metrics that are no means, one of them a class of the user's."""

    class Positives(k.metrics.Metric):
        def __init__(self) -> None:
            super().__init__(name="positives")
            self.count = self.add_variable((), "zeros", name="count")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.count.assign_add(k.ops.sum(k.ops.cast(y_pred > 0.5, "float32")))

        def result(self) -> Any:
            return self.count.value

    model = k.Sequential([k.Input((4,)), k.layers.Dense(1, "sigmoid")])
    found = [k.metrics.AUC(num_thresholds=20, name="auc"), k.metrics.Precision(name="precision"), Positives()]
    model.compile(
        "adam", k.losses.BinaryFocalCrossentropy(), metrics=found, weighted_metrics=[lambda y, p: k.ops.mean(k.ops.abs(y - p), -1)]
    )
    return model


def several_outputs(k: Any) -> Any:
    x = k.Input((4,))
    first = k.layers.Dense(3, "relu")(x)
    model = k.Model(x, [k.layers.Dense(1, name="a")(first), k.layers.Dense(1, name="b")(first), k.layers.Dense(2, name="c")(first)])
    model.compile("adam", ["mse", k.losses.Huber(), None], loss_weights=[1.0, 2.0, None], metrics=[["mae"], None, None])
    return model


def without_targets(k: Any) -> Any:
    """All of the loss is added by a layer."""

    class Energy(k.layers.Layer):
        def call(self, x: Any) -> Any:
            self.add_loss(k.ops.mean(k.ops.square(x - 1.0)))
            return x

    model = k.Sequential([k.Input((4,)), k.layers.Dense(3), Energy()])
    model.compile("adam")
    return model


def nested(k: Any) -> Any:
    """A subclassed model of models, with a dictionary of outputs."""

    class Whole(k.Model):
        def __init__(self) -> None:
            super().__init__()
            self.body = k.Sequential([k.layers.Dense(4, "gelu"), k.layers.LayerNormalization()])
            self.heads = {name: k.layers.Dense(1) for name in ("a", "b")}

        def call(self, x: Any, training: bool | None = None) -> Any:
            hidden = self.body(x, training=training)
            return {name: head(hidden) for name, head in self.heads.items()}

    model = Whole()
    model.compile("adam", {"a": "mse", "b": "mae"}, metrics={"b": ["mse"]})
    return model


def normalised(k: Any) -> Any:
    """Statistics of batches that stay, as in fine-tuning."""
    model = k.Sequential([k.Input((4,)), k.layers.Dense(3), k.layers.BatchNormalization(), k.layers.Dense(1)])
    model.layers[1].trainable = False
    model.compile(k.optimizers.Lion(0.01), "mse")
    return model


def half(k: Any) -> Any:
    policy = k.mixed_precision.DTypePolicy("mixed_bfloat16")
    model = k.Sequential([k.Input((4,)), k.layers.Dense(5, "tanh", dtype=policy), k.layers.Dense(1, dtype=policy)])
    model.compile(k.optimizers.SGD(0.05), "mse")
    return model


FEATURES: dict[str, tuple[Callable[[Any], Any], Any, Any, dict[str, Any]]] = {
    "accumulated gradients": (accumulated, X, Y, {"epochs": 4}),
    "averages that overwrite": (averaged, X, Y, {"epochs": 4}),
    "schedule": (scheduled, X, Y, {}),
    "shared layers": (shared, [X[:, :2], X[:, 2:]], Y, {}),
    "frozen layers": (partly_frozen, X, Y, {}),
    "no gradient": (unused, X, Y, {}),
    "recurrent": (recurrent, SERIES, SERIES[..., :1], {}),
    "metrics": (judged, X, LABELS, {"sample_weight": rng.random(24), "validation_data": (X, LABELS)}),
    "several outputs": (several_outputs, X, [Y, Y, np.zeros((24, 2), np.float32)], {}),
    "without targets": (without_targets, X, None, {}),
    "nested": (nested, X, {"a": Y, "b": -Y}, {"validation_split": 0.25}),
    "frozen statistics": (normalised, X, Y, {}),
    "bfloat16": (half, X, Y, {"rtol": 2e-2}),
    "initial epoch": (scheduled, X, Y, {"initial_epoch": 2, "epochs": 4}),
    "class weights": (judged, X, LABELS, {"class_weight": {0: 1.0, 1: 3.0}}),
}


@pytest.mark.parametrize("name", sampled(FEATURES, FEATURES.keys() - {"class weights"}))
def test_features_do_on_two_replicas_what_they_do_in_plain_keras(name: str) -> None:
    make, x, y, options = FEATURES[name]
    require_those_of_keras(make, "mirrored", x, y, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", FEATURES)
def test_features_do_what_they_do_in_plain_keras(name: str, strategy: str) -> None:
    make, x, y, options = FEATURES[name]
    require_those_of_keras(make, strategy, x, y, **options)


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["mirrored"]))
def test_numbers_of_64_bits_are_computed_as_such(strategy: str) -> None:
    policy = keras.config.dtype_policy()
    jax.config.update("jax_enable_x64", True)
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        x, y = X.astype(np.float64), Y.astype(np.float64)
        # Keras itself rounds its losses to 32 bits.
        require_those_of_keras(lambda k: dense(k, k.optimizers.SGD(0.05)), strategy, x, y, rtol=1e-7)
        model = trained(lambda k: dense(k, "adam"), strategy, x, y)[1][0]
        assert {weight.dtype for weight in model.get_weights()} == {np.dtype(np.float64)}
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy(policy)
        jax.config.update("jax_enable_x64", False)


class Batches(plain.callbacks.Callback):
    """Which batches the hooks of a test are called with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("begin", batch))

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("end", batch))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_validation_may_have_another_number_of_steps_in_an_execution(strategy: str) -> None:
    calls: list[list[tuple[str, int]]] = []
    losses: list[float] = []
    for k in (plain, keras):
        with STRATEGIES[strategy]().scope() if k is keras else nullcontext():
            model = k.Sequential([k.Input((4,)), k.layers.Dense(1, kernel_initializer="ones")])
            model.compile("sgd", "mse", steps_per_execution=3)
        notes = Batches()
        model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
        model.steps_per_execution = 2
        losses.append(model.evaluate(X, Y, batch_size=4, verbose=0, callbacks=[notes]))
        calls.append(notes.calls)
    assert calls[0] == calls[1] and len(calls[0]) == 6
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_whether_a_step_is_compiled_changes_no_number() -> None:
    require_those_of_keras(lambda k: dense(k, "sgd", jit_compile=False), "mirrored", X, Y)
