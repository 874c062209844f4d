"""Distillation, contrastive losses, heads that are trained alone, scaled losses: steps of the user's own train as in plain Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from beside_keras import STRATEGIES, require_those_of_keras
from sampling import covering, sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
Y = np.tanh(X.sum(1, keepdims=True))


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


def distiller_of_keras(k: Any) -> Any:
    """As Keras has it; its class says nothing of a ``train_step``, and computes the loss."""
    teacher, student = (k.Sequential([k.Input((4,)), k.layers.Dense(5, "relu"), k.layers.Dense(1)]) for _ in range(2))
    model = k.distillation.Distiller(teacher, student, distillation_losses=k.distillation.LogitsDistillation(loss="mse"))
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
    "logs of its own": with_logs_of_its_own,
    "distillation": distilled,
    "distiller of Keras": distiller_of_keras,
    "head alone": head_alone,
    "gradients of None": without_some_gradients,
    "scaled loss": mixed_precision,
}
CASES = [(name, strategy) for name in STEPS for strategy in STRATEGIES]


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize(("name", "strategy"), sampled(CASES, [*covering(CASES), ("logs of its own", "one worker")]))
def test_custom_steps_train_as_in_plain_keras(name: str, strategy: str) -> None:
    require_those_of_keras(STEPS[name], strategy, X, Y)


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
@pytest.mark.sample(2)
def test_rows_of_a_contrastive_loss_are_compared_with_those_of_their_replica(strategy: str, parts: int) -> None:
    require_those_of_keras(contrastive(parts), strategy, X, np.repeat(Y, 3, axis=1))
