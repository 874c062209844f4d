"""Ten models in the usual style of Keras, as functions of a namespace: plain `keras`, or `simdist.keras`. None of them names a strategy.

No layer draws random numbers or has statistics of batches, so that a synchronous strategy must give the losses of plain Keras.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

__all__ = ["BATCH", "MODELS", "data_of"]

BATCH = 12
ROWS = 4 * BATCH


def mlp(k: Any) -> Any:
    model = k.Sequential([k.Input((6,)), k.layers.Dense(8, "relu"), k.layers.Dense(8, "tanh"), k.layers.Dense(3)])
    model.compile(k.optimizers.Adam(0.01), k.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def cnn(k: Any) -> Any:
    model = k.Sequential(
        [
            k.Input((6, 6, 1)),
            k.layers.Conv2D(3, 3, activation="relu"),
            k.layers.MaxPooling2D(2),
            k.layers.Flatten(),
            k.layers.Dense(3, "softmax"),
        ]
    )
    model.compile(k.optimizers.SGD(0.05, momentum=0.9, nesterov=True), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def resnet_block(k: Any) -> Any:
    image = k.Input((6, 6, 1))
    first = k.layers.Conv2D(4, 3, padding="same")(image)
    inner = k.layers.Activation("relu")(k.layers.LayerNormalization()(first))
    inner = k.layers.Conv2D(4, 3, padding="same", kernel_regularizer=k.regularizers.L2(1e-3))(inner)
    pooled = k.layers.GlobalAveragePooling2D()(k.layers.Add()([first, inner]))
    model = k.Model(image, k.layers.Dense(3)(pooled))
    model.compile(k.optimizers.AdamW(0.01, weight_decay=0.01), k.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def lstm(k: Any) -> Any:
    model = k.Sequential(
        [k.Input((5,), dtype="int32"), k.layers.Embedding(9, 4, mask_zero=True), k.layers.LSTM(4), k.layers.Dense(1, "sigmoid")]
    )
    model.compile(k.optimizers.RMSprop(0.01), "binary_crossentropy", metrics=["binary_accuracy"])
    return model


def attention(k: Any) -> Any:
    words = k.Input((5,), dtype="int32")
    vectors = k.layers.Embedding(9, 4)(words)
    attended = k.layers.MultiHeadAttention(num_heads=2, key_dim=2)(vectors, vectors, use_causal_mask=True)
    vectors = k.layers.LayerNormalization()(vectors + attended)
    model = k.Model(words, k.layers.Dense(1)(k.ops.mean(vectors, axis=1)))
    model.compile(k.optimizers.Adam(0.01), k.losses.BinaryCrossentropy(from_logits=True))
    return model


def autoencoder(k: Any) -> Any:
    class Autoencoder(k.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = k.Sequential([k.layers.Dense(4, "relu"), k.layers.Dense(2)])
            self.decoder = k.Sequential([k.layers.Dense(4, "relu"), k.layers.Dense(6)])

        def call(self, x: Any) -> Any:
            code = self.encoder(x)
            self.add_loss(1e-2 * k.ops.mean(k.ops.square(code)))
            return self.decoder(code)

    model = Autoencoder()
    model.compile(k.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def two_towers(k: Any) -> Any:
    user, item = k.Input((1,), dtype="int32", name="user"), k.Input((1,), dtype="int32", name="item")
    towers = [k.layers.Flatten()(k.layers.Embedding(9, 3)(ids)) for ids in (user, item)]
    model = k.Model([user, item], k.layers.Dot(axes=1)(towers))
    model.compile(k.optimizers.Adagrad(0.1), "mse")
    return model


def gan(k: Any) -> Any:
    """Two optimizers. That of the discriminator is tracked as state of the model, as the stateless form of JAX asks for."""

    class GAN(k.Model):
        def __init__(self) -> None:
            super().__init__()
            self.generator = k.Sequential([k.Input((2,)), k.layers.Dense(4, "tanh"), k.layers.Dense(6)])
            self.discriminator = k.Sequential([k.Input((6,)), k.layers.Dense(4, "tanh"), k.layers.Dense(1)])
            self.built = True

        def compile(self, d_optimizer: Any, g_optimizer: Any, loss_fn: Any) -> None:
            super().compile(optimizer=g_optimizer)
            g_optimizer.build(self.generator.trainable_variables)
            d_optimizer.build(self.discriminator.trainable_variables)
            self.d_optimizer, self.loss_fn = d_optimizer, loss_fn
            self.d_state = list(d_optimizer.variables)
            self.d_loss, self.g_loss = k.metrics.Mean(name="d_loss"), k.metrics.Mean(name="g_loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.d_loss, self.g_loss]

        def call(self, latent: Any) -> Any:
            return self.generator(latent)

        def train_step(self, state: Any, data: Any) -> Any:
            trained, others, g_state, counts = state
            latent, real = data
            split = len(self.generator.trainable_variables)
            g, d = list(trained[:split]), list(trained[split:])
            at = [[v is slot for v in self.non_trainable_variables].index(True) for slot in self.d_state]

            def judged(d: Any, images: Any) -> Any:
                return self.discriminator.stateless_call(d, [], images)[0]

            def of_discriminator(d: Any) -> Any:
                fake = self.generator.stateless_call(g, [], latent)[0]
                ones, zeros = k.ops.ones((len(real), 1)), k.ops.zeros((len(real), 1))
                return self.loss_fn(ones, judged(d, real)) + self.loss_fn(zeros, judged(d, fake))

            def of_generator(g: Any) -> Any:
                return self.loss_fn(k.ops.ones((len(real), 1)), judged(d, self.generator.stateless_call(g, [], latent)[0]))

            d_loss, gradients = jax.value_and_grad(of_discriminator)(d)
            d, slots = self.d_optimizer.stateless_apply([others[number] for number in at], gradients, d)
            g_loss, gradients = jax.value_and_grad(of_generator)(g)
            g, g_state = self.optimizer.stateless_apply(g_state, gradients, g)
            others = list(others)
            for number, value in zip(at, slots, strict=True):
                others[number] = value
            first = self.d_loss.stateless_update_state(counts[:2], d_loss, sample_weight=len(real))
            second = self.g_loss.stateless_update_state(counts[2:], g_loss, sample_weight=len(real))
            logs = {"d_loss": self.d_loss.stateless_result(first), "g_loss": self.g_loss.stateless_result(second)}
            return logs, ([*g, *d], others, g_state, [*first, *second])

    model = GAN()
    model.compile(k.optimizers.Adam(0.01), k.optimizers.Adam(0.01), k.losses.BinaryCrossentropy(from_logits=True))
    return model


def mixed_inputs(k: Any) -> Any:
    numbers, kind = k.Input((6,), name="numbers"), k.Input((1,), dtype="int32", name="kind")
    joined = k.layers.Concatenate()([numbers, k.layers.Flatten()(k.layers.Embedding(9, 2)(kind))])
    shared = k.layers.Dense(6, "relu")(joined)
    outputs = {"price": k.layers.Dense(1, name="price")(shared), "sold": k.layers.Dense(1, "sigmoid", name="sold")(shared)}
    model = k.Model({"numbers": numbers, "kind": kind}, outputs)
    model.compile(
        k.optimizers.Adam(k.optimizers.schedules.ExponentialDecay(0.01, 5, 0.9)),
        {"price": "mse", "sold": "binary_crossentropy"},
        loss_weights={"price": 1.0, "sold": 0.5},
        metrics={"price": ["mae"]},
    )
    return model


def layer_with_state(k: Any) -> Any:
    class Warming(k.layers.Layer):
        """Scales what it is given, by how often it was trained."""

        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any, training: bool = False) -> Any:
            if training:
                self.calls.assign_add(1.0)
            return x * self.scale * k.ops.minimum(1.0, self.calls / 10.0)

    model = k.Sequential([k.Input((6,)), k.layers.Dense(4), Warming(), k.layers.Dense(1)])
    model.compile(k.optimizers.SGD(0.05), "mse", metrics=["mae"])
    return model


MODELS: dict[str, Callable[[Any], Any]] = {
    "mlp": mlp,
    "cnn": cnn,
    "resnet block": resnet_block,
    "lstm": lstm,
    "attention": attention,
    "autoencoder": autoencoder,
    "two towers": two_towers,
    "gan": gan,
    "mixed inputs": mixed_inputs,
    "layer with state": layer_with_state,
}


def data_of(name: str) -> tuple[Any, Any]:
    """Rows for a model, and their targets."""
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(ROWS, 6)).astype(np.float32)
    images = rng.normal(size=(ROWS, 6, 6, 1)).astype(np.float32)
    words, classes = rng.integers(0, 9, (ROWS, 5)).astype(np.int32), rng.integers(0, 3, (ROWS,)).astype(np.int32)
    yes, price = (words[:, :1] > 4).astype(np.float32), numbers.sum(1, keepdims=True)
    return {
        "mlp": (numbers, classes),
        "cnn": (images, classes),
        "resnet block": (images, classes),
        "lstm": (words, yes),
        "attention": (words, yes),
        "autoencoder": (numbers, numbers),
        "two towers": ((words[:, :1], words[:, 1:2]), price),
        "gan": (numbers[:, :2], numbers),
        "mixed inputs": ({"numbers": numbers, "kind": words[:, :1]}, {"price": price, "sold": yes}),
        "layer with state": (numbers, price),
    }[name]
