"""Golden runs of Keras' fit under synchronous strategies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import simdist as sd
from simdist import keras
from tests.golden.problems import Golden, Outcome, batches, fitted, perceptron

__all__ = ["FITS"]


def fit(
    strategy: Any, optimizer: Any = None, dataset: Any = None, layers: Callable[[], list[Any]] | None = None, **options: Any
) -> Outcome:
    """Two epochs, and an evaluation."""
    with strategy.scope():
        model = perceptron(
            keras.optimizers.SGD(0.05) if optimizer is None else optimizer(), layers=layers and layers(), metrics=["mae"], **options
        )
    dataset = batches(7) if dataset is None else dataset
    history = model.fit(dataset, epochs=2, validation_data=batches(10), verbose=0)
    predicted = model.predict(batches(9), verbose=0)
    return strategy.cluster, [*fitted(model, history), np.array(model.evaluate(batches(8), verbose=0)), predicted]


def mirrored_with_noise() -> Outcome:
    def layers() -> list[Any]:
        # A bias, or equal units, would have gradients of 0 before the normalization, and Adam would make steps of their roundings, which
        # are others on another processor.
        dense = keras.layers.Dense(4, use_bias=False, kernel_initializer=keras.initializers.GlorotUniform(seed=1))
        return [dense, keras.layers.BatchNormalization(), keras.layers.Dropout(0.3, seed=3)]

    return fit(sd.MirroredStrategy(2), lambda: keras.optimizers.Adam(0.02), layers=layers, steps_per_execution=2)


def packs_while_computing() -> Outcome:
    def layers() -> list[Any]:
        return [keras.layers.Dense(8, "tanh", kernel_initializer=keras.initializers.GlorotUniform(seed=n)) for n in range(3)]

    options = sd.CommunicationOptions(bytes_per_pack=64)
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), options)
    return fit(strategy, layers=layers)


def accumulated() -> Outcome:
    return fit(sd.MirroredStrategy(2), lambda: keras.optimizers.Adam(0.02, gradient_accumulation_steps=2), batches(6))


def survivors() -> Outcome:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), on_failure="continue")
    strategy.cluster.faults.crash("worker:1", after_steps=3, restart_after=5e-4)
    return fit(strategy)


def central() -> Outcome:
    return fit(sd.CentralStorageStrategy(2), lambda: keras.optimizers.RMSprop(0.02))


FITS: dict[str, Golden] = {
    "fit: mirrored, dropout and batch statistics": mirrored_with_noise,
    "fit: packs while computing": packs_while_computing,
    "fit: accumulated gradients": accumulated,
    "fit: survivors": survivors,
    "fit: central storage": central,
}
