"""A train_step of the user's own, in the stateless form of Keras on JAX, trains as it does in plain Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from beside_keras import STRATEGIES, require_those_of_keras, trained
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
Y = np.tanh(X.sum(1, keepdims=True))


def with_gradients_of_its_own(k: Any) -> Any:
    """As Keras' guide to custom steps with JAX has it."""

    class Custom(k.Model):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.error = k.metrics.MeanAbsoluteError(name="mae")
            self.tracker = k.metrics.Mean(name="loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.tracker, self.error]

        def loss_and_updates(self, trained: Any, others: Any, x: Any, y: Any) -> Any:
            y_pred, others = self.stateless_call(trained, others, x, training=True)
            return self.compute_loss(x, y, y_pred), (y_pred, others)

        def train_step(self, state: Any, data: Any) -> Any:
            trained, others, optimizer, counts = state
            x, y = data
            (loss, (y_pred, others)), gradients = jax.value_and_grad(self.loss_and_updates, has_aux=True)(trained, others, x, y)
            trained, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trained)
            after: list[Any] = []
            logs: dict[str, Any] = {}
            for metric in self.metrics:
                own = counts[len(after) : len(after) + len(metric.variables)]
                given = (loss,) if metric.name == "loss" else (y, y_pred)
                own = metric.stateless_update_state(own, *given)
                logs[metric.name] = metric.stateless_result(own)
                after += own
            return logs, (trained, others, optimizer, after)

    inputs = k.Input((4,))
    model = Custom(inputs, k.layers.Dense(1)(k.layers.Dense(5, "tanh")(inputs)))
    model.compile(k.optimizers.Adam(0.02), "mse")
    return model


def with_logs_of_its_own(k: Any) -> Any:
    class Custom(k.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            logs, state = super().train_step(state, data)
            return {**logs, "ten": 10.0}, state

    model = Custom([k.Input((4,)), k.layers.Dense(5, "tanh"), k.layers.Dense(1)])
    model.compile(k.optimizers.SGD(0.1, momentum=0.9), "mse", metrics=["mae"])
    return model


def distilled(k: Any) -> Any:
    """The student learns of a teacher that stays as it is."""

    class Distiller(k.Model):
        def __init__(self) -> None:
            super().__init__()
            self.teacher = k.Sequential([k.Input((4,)), k.layers.Dense(6, "relu"), k.layers.Dense(1)])
            self.student = k.Sequential([k.Input((4,)), k.layers.Dense(1)])
            self.teacher.trainable = False

        def call(self, x: Any, training: bool = False) -> Any:
            return self.student(x, training=training)

        def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
            soft = k.ops.mean(k.ops.square(self.teacher(x, training=False) - y_pred))
            return 0.3 * super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight) + 0.7 * soft

    model = Distiller()
    model.build((None, 4))
    model.compile(k.optimizers.Adam(0.02), "mse")
    return model


def head_alone(k: Any) -> Any:
    """An optimizer for a subset of the variables."""

    class HeadAlone(k.Model):
        def __init__(self) -> None:
            super().__init__()
            self.body = k.Sequential([k.Input((4,)), k.layers.Dense(5, "tanh")])
            self.head = k.Sequential([k.Input((5,)), k.layers.Dense(1)])
            self.built = True

        def call(self, x: Any) -> Any:
            return self.head(self.body(x))

        def train_step(self, state: Any, data: Any) -> Any:
            trained, others, optimizer, counts = state
            x, y = data
            split = len(self.body.trainable_variables)

            def loss_of(head: Any) -> Any:
                return self.compute_loss(x, y, self.stateless_call([*trained[:split], *head], others, x)[0])

            loss, gradients = jax.value_and_grad(loss_of)(list(trained[split:]))
            head, optimizer = self.optimizer.stateless_apply(optimizer, gradients, list(trained[split:]))
            return {"loss of the head": loss}, ([*trained[:split], *head], others, optimizer, counts)

    model = HeadAlone()
    model.compile(k.optimizers.Adam(0.05), "mse")
    model.optimizer.build(model.head.trainable_variables)
    return model


def without_some_gradients(k: Any) -> Any:
    """Gradients of None leave their variables as they are."""

    class Custom(k.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            trained, others, optimizer, counts = state
            x, y = data
            loss_of = jax.value_and_grad(lambda trained: self.compute_loss(x, y, self.stateless_call(trained, others, x)[0]))
            loss, gradients = loss_of(trained)
            trained, optimizer = self.optimizer.stateless_apply(optimizer, [None, None, *gradients[2:]], trained)
            return {"loss of the step": loss}, (trained, others, optimizer, counts)

    model = Custom([k.Input((4,)), k.layers.Dense(5, "tanh"), k.layers.Dense(1)])
    model.compile(k.optimizers.Adam(0.05), "mse")
    return model


def mixed_precision(k: Any) -> Any:
    """The loss is scaled by the step itself, as Keras' own step does it."""
    model = with_logs_of_its_own(k)
    model.compile(k.optimizers.LossScaleOptimizer(k.optimizers.SGD(0.1), dynamic_growth_steps=2), "mse")
    return model


STEPS = {
    "gradients of its own": with_gradients_of_its_own,
    "logs of its own": with_logs_of_its_own,
    "distillation": distilled,
    "head alone": head_alone,
    "gradients of None": without_some_gradients,
    "scaled loss": mixed_precision,
}


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("make", STEPS.values(), ids=list(STEPS))
def test_custom_steps_train_as_in_plain_keras(make: Callable[[Any], Any], strategy: str) -> None:
    require_those_of_keras(make, strategy, X, Y)


def test_parts_that_do_not_divide_a_batch_evenly_give_the_exact_weights() -> None:
    (expected, _), (model, _) = trained(with_gradients_of_its_own, "mirrored", X[:23], Y[:23], batch_size=5)
    for one, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def contrastive(parts: int) -> Callable[[Any], Any]:
    """Each row against the other rows of its part of the batch: of plain Keras, which has one part, in as many as there are replicas."""

    def make(k: Any) -> Any:
        class Contrastive(k.Model):
            def __init__(self) -> None:
                super().__init__()
                self.encoder = k.layers.Dense(3)

            def call(self, x: Any) -> Any:
                return self.encoder(x)

            def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
                rows = y_pred.shape[0] // (1 if k is keras else parts)
                return sum(self.of_part(y_pred[at : at + rows], y[at : at + rows]) for at in range(0, y_pred.shape[0], rows)) / (
                    y_pred.shape[0] // rows
                )

            def of_part(self, one: Any, other: Any) -> Any:
                logits = k.ops.matmul(one, k.ops.transpose(other))
                return k.ops.mean(k.losses.sparse_categorical_crossentropy(k.ops.arange(len(one)), logits, from_logits=True))

        model = Contrastive()
        model.compile(k.optimizers.Adam(0.02))
        return model

    return make


@pytest.mark.parametrize(("strategy", "parts"), [("one device", 1), ("one worker", 1), ("mirrored", 2)])
def test_rows_of_a_contrastive_loss_are_compared_with_those_of_their_replica(strategy: str, parts: int) -> None:
    require_those_of_keras(contrastive(parts), strategy, X, np.repeat(Y, 3, axis=1))


def test_the_form_of_other_backends_is_refused_with_that_of_jax() -> None:
    class Custom(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            return {}

    with sd.MirroredStrategy(2).scope():
        model: Any = Custom([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"train_step\(self, state, data\)"):
        model.fit(X, Y, verbose=0)
