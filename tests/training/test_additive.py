"""Metrics that add up are told from those that do not, and both are those of plain Keras under every strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.training.additive import adds_up

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation", "ignore:Explicitly requested dtype")  # Keras' own
X = np.random.default_rng(0).random((53, 4), np.float32)
Y = (X.sum(1, keepdims=True) > 2).astype(np.float32)
STEPS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "a sum": (lambda total, x: total + x, True),
    "sums one after the other": (lambda total, x: (x + total) + 2 * x - 1.0, True),
    "nothing": (lambda total, x: total, True),
    "a sum in a function": (lambda total, x: jax.jit(lambda a, b: a + b * b)(total, x), True),
    "in another dtype": (lambda total, x: (total.astype(jnp.float16) + 1).astype(jnp.float32), True),
    "a sum in a loop": (lambda total, x: jax.lax.fori_loop(0, 3, lambda i, value: value + i * x, total), True),
    "a sum in a branch": (lambda total, x: jax.lax.cond(x > 1, lambda: total + x, lambda: total), True),
    "a branch of the sum": (lambda total, x: jax.lax.cond(total > 1, lambda: total + x, lambda: total), False),
    "a branch without it": (lambda total, x: jax.lax.cond(x > 1, lambda: total + x, lambda: x), False),
    "added in each turn": (lambda total, x: jax.lax.fori_loop(0, 3, lambda i, value: value + total, x), False),
    "as many turns as it says": (lambda total, x: jax.lax.while_loop(lambda value: value < 3, lambda value: value + x, total), False),
    "a turn for each": (lambda total, x: jax.lax.scan(lambda seen, one: (seen, one + x), 0.0, total[None])[1][0], False),
    "what is left": (lambda total, x: x - total, False),
    "the largest": (jnp.maximum, False),
    "an average": (lambda total, x: 0.9 * total + 0.1 * x, False),
    "twice": (lambda total, x: total + total, False),
    "a new value": (lambda total, x: x, False),
    "a largest in a function": (lambda total, x: jax.jit(jnp.maximum)(total, x), False),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_sum_is_a_value_plus_something_that_depends_on_none(name: str) -> None:
    step, expected = STEPS[name]
    traced = jax.make_jaxpr(step)(1.0, 2.0).jaxpr
    assert adds_up(traced, traced.invars[:1], traced.outvars) == [expected]


def test_a_value_that_another_metric_was_added_to_is_no_sum() -> None:
    traced = jax.make_jaxpr(lambda a, b: (b, a + b))(1.0, 2.0).jaxpr
    assert adds_up(traced, traced.invars, traced.outvars) == [False, False]


class Largest(plain.metrics.Metric):
    """The largest prediction; Keras gives its variable the aggregation of a sum."""

    def __init__(self) -> None:
        super().__init__(name="largest")
        self.largest = self.add_weight(shape=(), initializer="zeros", name="largest")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(y_pred)))

    def result(self) -> Any:
        return 1.0 * self.largest


def compiled(namespace: Any, *metrics: Any, base: Any = None) -> Any:
    out = keras.layers.Dense(1, "sigmoid", kernel_initializer=keras.initializers.GlorotUniform(seed=3))
    model = (base or namespace.Sequential)([keras.Input((4,)), out])
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=list(metrics))
    return model


STRATEGIES: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1})),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_metric_that_does_not_add_up_is_evaluated_as_in_keras(strategy: str) -> None:
    with STRATEGIES[strategy]().scope():
        model = compiled(keras, Largest())
    assert model.evaluate(X, Y, batch_size=8, verbose=0) == pytest.approx(
        compiled(plain, Largest()).evaluate(X, Y, batch_size=8, verbose=0)
    )


def test_metrics_of_keras_add_up() -> None:
    of = keras.metrics
    with STRATEGIES["servers"]().scope():
        metrics = [of.AUC(), of.Precision(), of.R2Score(), of.F1Score(threshold=0.5), of.BinaryIoU([0, 1]), of.PrecisionAtRecall(0.5)]
        model = compiled(keras, *metrics)
    model.evaluate(X, Y, batch_size=8, verbose=0)
    assert model.simdist_state.forward_steps["test"][1].may_be_split


def test_under_servers_a_step_of_ones_own_keeps_what_does_not_add_up() -> None:
    def own(namespace: Any) -> Any:
        class Own(namespace.Sequential):
            def train_step(self, state: Any, data: Any) -> Any:
                return super().train_step(state, data)

        return compiled(namespace, Largest(), "mae", base=Own)

    with sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})).scope():
        ours = own(keras)
    options: dict[str, Any] = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}
    found, wanted = (model.fit(X, Y, **options).history for model in (ours, own(plain)))
    for name, values in wanted.items():
        assert found[name] == pytest.approx(values, rel=1e-5)
