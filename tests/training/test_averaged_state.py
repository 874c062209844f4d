"""State of layers with aggregation="mean": replicas go on with the mean of what they assign, as plain Keras with the whole batch."""

from __future__ import annotations

from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32) + np.arange(32, dtype=np.float32)[:, None]
Y = X.sum(1, keepdims=True)

STRATEGIES: dict[str, Any] = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "several workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "central storage": lambda: sd.CentralStorageStrategy(2),
    "rounds of two workers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), mode="sync"),
    "shards": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
}


class Centred(plain.layers.Layer):
    """Its rows less a moving mean, which it then moves: in training, too, the state is used."""

    def __init__(self, averaged: bool) -> None:
        super().__init__(name="centred")
        self.averaged = averaged

    def build(self, input_shape: Any) -> None:
        mean: dict[str, Any] = {"aggregation": "mean"} if self.averaged else {}
        self.centre: Any = self.add_weight(shape=(input_shape[-1],), initializer="zeros", trainable=False, name="centre", **mean)

    def call(self, x: Any, training: bool = False) -> Any:
        centre: Any = self.centre + 0.0
        if training:
            mean: Any = plain.ops.mean(x, axis=0)
            self.centre.assign(0.5 * centre + 0.5 * mean)
        return x - centre


class OwnStep(keras.Sequential):
    def train_step(self, state: Any, data: Any) -> Any:
        return super().train_step(state, data)


def model_of(kind: Any, averaged: bool = True) -> Any:
    model = kind([plain.Input((3,)), Centred(averaged), plain.layers.Dense(1, kernel_initializer="ones")])
    model.compile(plain.optimizers.SGD(0.01), "mse")
    return model


@pytest.mark.sample
@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replicas_share_the_mean_of_what_they_assign(strategy: str, kind: Any) -> None:
    expected = model_of(plain.Sequential)
    history = expected.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
    with STRATEGIES[strategy]().scope():
        model = model_of(kind)
    parts = 2 if strategy.startswith("rounds") else 1
    batches = sd.Dataset.from_tensor_slices((X, Y)).batch(8 // parts).repeat()
    found = model.fit(batches, epochs=2, steps_per_epoch=4 * parts, verbose=0).history  # of lost assignments nothing is said
    np.testing.assert_allclose(found["loss"], history["loss"], rtol=1e-4)
    for one, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(np.asarray(one.value), np.asarray(other.value), rtol=1e-4, atol=1e-5)


def test_other_state_is_each_replicas_own() -> None:
    with sd.MirroredStrategy(2).scope():
        averaged, alone = model_of(keras.Sequential), model_of(keras.Sequential, averaged=False)
    of_one, of_other = (model.fit(X, Y, batch_size=8, shuffle=False, verbose=0).history["loss"][0] for model in (averaged, alone))
    assert abs(of_one - of_other) > 1.0


UNEVEN = {name: STRATEGIES[name] for name in ("mirrored", "several workers", "central storage")} | {"four": lambda: sd.MirroredStrategy(4)}


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("rows", [17, 21])
@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
@pytest.mark.parametrize("strategy", UNEVEN)
def test_replicas_count_by_their_rows_in_the_mean(strategy: str, kind: Any, rows: int) -> None:
    expected = model_of(plain.Sequential)
    expected.fit(X[:rows], Y[:rows], batch_size=8, epochs=2, shuffle=False, verbose=0)
    with UNEVEN[strategy]().scope():
        model = model_of(kind)
    model.fit(X[:rows], Y[:rows], batch_size=8, epochs=2, shuffle=False, verbose=0)
    for one, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(np.asarray(one.value), np.asarray(other.value), rtol=1e-4, atol=1e-5)


class Largest(Centred):
    """Remembers the largest of its rows, which there is not of none."""

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.centre.assign(plain.ops.max(x, axis=0))
        return x


def test_a_replica_whose_layers_need_a_row_and_that_has_none_does_not_count_in_the_mean() -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), Largest(True), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(X[:9], Y[:9], batch_size=8, shuffle=False, verbose=0)
    np.testing.assert_allclose(np.asarray(model.weights[0].value), X[8], rtol=1e-6)
