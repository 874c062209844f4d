"""Which layers are trainable may change between calls: evaluate and predict have the right values, training asks for a compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

X = np.random.default_rng(0).random((8, 3), np.float32)
Y = np.zeros((8, 3), np.float32)
FIRST, SECOND = np.diag([1.0, 2.0, 3.0]).astype("float32"), np.triu(np.ones((3, 3), np.float32))


@pytest.mark.parametrize("anew", [True, False], ids=["compiled anew", "as it is"])
def test_layers_that_change_places_among_the_trainable_ones_keep_their_values(anew: bool) -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3), keras.layers.Dense(3)])
        model.set_weights([FIRST, np.zeros(3), SECOND, np.zeros(3)])
        one, other = model.layers
        for frozen, trained in ((one, other), (other, one)):
            frozen.trainable, trained.trainable = False, True
            if anew or not model.compiled:
                model.compile("sgd", "mse")
            expected = X @ FIRST @ SECOND
            np.testing.assert_allclose(model.predict(X, verbose=0), expected, rtol=1e-5, atol=1e-6)
            assert model.evaluate(X, Y, verbose=0) == pytest.approx(np.mean(expected**2), rel=1e-5)


def model_of_two(library: Any) -> Any:
    model = library.Sequential([library.Input((3,)), library.layers.Dense(3, name="one"), library.layers.Dense(3, name="two")])
    model.compile(library.optimizers.SGD(0.01), "mse")
    model.set_weights([FIRST, np.zeros(3), SECOND, np.zeros(3)])
    return model


@pytest.mark.parametrize("make", [lambda: sd.MirroredStrategy(2), lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))])
def test_a_layer_that_is_frozen_after_training_asks_for_another_compile(make: Callable[[], Any]) -> None:
    with make().scope():
        model = model_of_two(keras)
    model.fit(X, Y, verbose=0)
    before = model.get_weights()
    model.get_layer("one").trainable = False
    with pytest.raises(InvalidArgumentError, match=r"no longer: sequential.*/one/kernel, sequential.*/one/bias.*Compile it again"):
        model.fit(X, Y, verbose=0)
    with pytest.raises(InvalidArgumentError, match="Compile it again"):
        model.train_on_batch(X, Y)
    np.testing.assert_array_equal(model.get_weights()[0], before[0])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(X, Y, verbose=0)
    after = model.get_weights()
    np.testing.assert_array_equal(after[0], before[0])
    assert np.any(after[2] != before[2])
    model.get_layer("one").trainable = True
    with pytest.raises(InvalidArgumentError, match=r"now also: sequential.*/one/kernel"):
        model.fit(X, Y, verbose=0)
    model.pop()
    model.get_layer("one").trainable = False
    with pytest.raises(InvalidArgumentError, match=r"\(without: 2 that it has no more\)"):
        model.fit(X, Y, verbose=0)


def test_a_layer_that_is_frozen_between_epochs_is_refused_before_the_next_one() -> None:
    with sd.MirroredStrategy(2).scope():
        model = model_of_two(keras)
    seen: list[Any] = []

    def freeze(epoch: int, logs: Any) -> None:
        model.get_layer("one").trainable = False
        seen.append(model.get_weights()[0])

    with pytest.raises(InvalidArgumentError, match=r"no longer: sequential.*/one/kernel.*Compile it again"):
        model.fit(X, Y, epochs=3, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=freeze)])
    assert len(seen) == 1
    np.testing.assert_array_equal(model.get_weights()[0], seen[0])


def test_plain_keras_refuses_a_layer_that_is_frozen_after_training_too() -> None:
    model = model_of_two(plain)
    model.fit(X, Y, verbose=0)
    model.get_layer("one").trainable = False
    with pytest.raises(ValueError, match="built with"):
        model.fit(X, Y, verbose=0)


def test_a_layer_that_was_frozen_in_between_is_trained_as_before() -> None:
    with sd.MirroredStrategy(2).scope():
        model = model_of_two(keras)
    model.fit(X, Y, verbose=0)
    before = model.get_weights()
    model.get_layer("one").trainable = False
    model.evaluate(X, Y, verbose=0)
    model.get_layer("one").trainable = True
    model.fit(X, Y, verbose=0)
    assert np.any(model.get_weights()[0] != before[0])
